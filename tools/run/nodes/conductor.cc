#include <tutti/tools/run/nodes/conductor.h>
#include <tutti/tools/run/signals.h>

#include <algorithm>

namespace tutti::tools {
namespace {

constexpr std::chrono::seconds kFirstProgress{1};

std::string restart_text(int restart, int most) {
  return "starting all ranks again (restart " + std::to_string(restart) + " of at most " + std::to_string(most) + ")\n";
}

}  // namespace

Conductor::Conductor(const CoordinatorOptions& options, Outside& outside, Clock::time_point now)
    : options_(options),
      job_id_(options.nodes.run_id.empty() ? new_job_id() : options.nodes.run_id),
      outside_(outside) {
  begin_gathering(now);
}

void Conductor::message(int agent, const Message& message, Clock::time_point now) {
  const auto* const hello = std::get_if<Hello>(&message);
  if (phase_ == Phase::Finished) {
    if (hello != nullptr) outside_.post(agent, last_verdict_);  // it has come too late
    return;
  }
  if (hello != nullptr) return on_hello(agent, *hello);
  if (agent == observer_) return on_observer(message);
  if (!agents_.contains(agent)) return;  // refused, or counted as lost
  if (const auto* report = std::get_if<Report>(&message)) {
    on_report(agent, *report, now);
  } else if (const auto* signalled = std::get_if<Signalled>(&message)) {
    if (!asks_to_end(signalled->signal)) return forward(signalled->signal);
    on_interrupted(agent, *signalled, now);
  } else {
    make_no_sense("agent " + std::to_string(agent) + " has sent what the coordinator says");
  }
}

void Conductor::on_observer(const Message& message) {
  if (const auto* signalled = std::get_if<Signalled>(&message)) {
    if (!asks_to_end(signalled->signal)) return forward(signalled->signal);
    interrupt("the launcher (pid " + std::to_string(options_.own.pid) + " on " + options_.own.host + ")", *signalled);
  } else if (const auto* hopeless = std::get_if<GiveUp>(&message)) {
    if (phase_ == Phase::Gathering) return finish(1, hopeless->text + "\n");
    const bool misses_one =
        round_->plan.nodes.size() - without_.size() < static_cast<std::size_t>(options_.nodes.min_nodes);
    if (phase_ == Phase::Running && misses_one && !hopeless->had_begun) give_up(hopeless->text);
  }
}

void Conductor::order(Order::Act act, int signal) { outside_.post(kToAll, Order{round_->plan.round, act, signal}); }

void Conductor::forward(int signal) {
  if (round_runs()) order(Order::Act::Signal, signal);
}

std::string Conductor::name_of(int agent) const {
  const Hello& hello = agents_.at(agent);
  const std::optional<int> node = node_of(agent);
  return (node ? "node " + std::to_string(*node) : "a node") + " (agent pid " + std::to_string(hello.pid) + " on " +
         hello.host + ")";
}

void Conductor::tell(const std::string& text) {
  if (observer_) outside_.post(*observer_, Notice{text});
  for (const auto& [agent, hello] : agents_) {
    if (hello.is_coordinators) outside_.post(agent, Notice{text});
  }
}

void Conductor::on_report(int agent, const Report& report, Clock::time_point now) {
  const std::optional<int> node = node_of(agent);
  if (!node || report.round != round_->plan.round) return;
  if (report.over) return on_ended(agent, report, now);
  const bool has_started = started_.try_emplace(*node, report.ranks).second;
  const bool all = started_.size() == round_->plan.nodes.size();
  if (has_started && all && *node < first_nodes_) tell(round_table(round_->plan, started_));
  if (elastic_) {
    elastic_->changed(*node, report.ranks);
  } else if (std::any_of(report.ranks.begin(), report.ranks.end(), [](const RankEnd& rank) { return rank.failed(); })) {
    stop_round(Order::Act::Settle);
  }
}

void Conductor::on_ended(int agent, const Report& ended, Clock::time_point now) {
  const std::optional<int> node = node_of(agent);
  const bool never_ran = !ended.cannot_start.empty();  // then the others have nothing to tell
  const bool well = !never_ran && std::all_of(ended.ranks.begin(), ended.ranks.end(), ended_well);
  if (never_ran && *node >= first_nodes_ && goes_on_without(*node)) {  // it has come later, and has not done any good
    return tell(name_of(agent) + " cannot start its ranks, and the others go on: " + ended.cannot_start + "\n");
  }
  round_->ended[*node] = ended;
  if (!well) stop_round(never_ran ? Order::Act::Kill : Order::Act::Settle);
  end_round_if_over(now);
}

void Conductor::lost(int agent, const std::string& why, Clock::time_point at, Clock::time_point now) {
  if (!agents_.contains(agent) || finished()) return;
  const std::string text = name_of(agent) + " was lost: " + why;
  agents_.erase(agent);
  const std::optional<int> node = node_of(agent);
  const bool in_round = node && round_runs();
  if (in_round && goes_on_without(*node)) {
    tell(text + "; the others go on\n");
    return end_round_if_over(now);
  }
  if (!in_round || round_->ended.contains(*node)) {
    if (!leaving_.contains(agent)) tell(text + "\n");
    if (!in_round) return;
  } else if (leaving_.contains(agent)) {
    round_->ended[*node] = {};  // it has gone without its last words
  } else {
    round_->lost.push_back({*node, text, at});
    stop_round(Order::Act::Settle);
  }
  end_round_if_over(now);
}

void Conductor::on_interrupted(int agent, const Signalled& interrupted, Clock::time_point now) {
  const bool coordinators = agents_.at(agent).is_coordinators;
  const bool in_round = node_of(agent) && round_runs();
  if (!coordinators && (!in_round || !options_.nodes.fixed_size())) {
    tell(name_of(agent) + " was stopped by " + signal_name(interrupted.signal) + " and leaves the job\n");
    const bool had_ranks = in_round && !joining_.contains(*node_of(agent));
    if (in_round && !had_ranks) goes_on_without(*node_of(agent));
    if (!had_ranks) {
      agents_.erase(agent);
      return;
    }
    leaving_.insert(agent);
    nodes_change_ = nodes_change_ || phase_ == Phase::Running;
    stop_round(Order::Act::Terminate);
    return end_round_if_over(now);
  }
  interrupt(name_of(agent), interrupted);
}

// The job as a whole is asked to end.
void Conductor::interrupt(const std::string& by, const Signalled& interrupted) {
  const std::string text = by + " was stopped by " + signal_name(interrupted.signal);
  if (!round_runs()) return finish(128 + interrupted.signal, text + "\n");
  if (!round_->interrupted_by) {
    round_->interrupted_by = interrupted.signal;
    round_->interrupted_text = text;
  }
  order(interrupted.again ? Order::Act::Kill : Order::Act::Signal, interrupted.signal);
  phase_ = Phase::Stopping;
}

void Conductor::stop_round(Order::Act act) {
  if (phase_ != Phase::Running) return;
  phase_ = Phase::Stopping;
  order(act);
}

void Conductor::end_round_if_over(Clock::time_point now) {
  if (!round_runs()) return;
  if (round_->ended.size() + round_->lost.size() + joining_.size() < round_->plan.nodes.size()) return;
  for (const int agent : leaving_) agents_.erase(agent);
  leaving_.clear();
  const Judgement judgement = judge(*round_);
  if (judgement.all_well && (!nodes_change_ || nobody_was_stopped())) return finish(0, "");
  if (round_->interrupted_by) return finish(judgement.status, judgement.summary);
  if (elastic_) restarts_ += elastic_->restarts_used();
  if (nodes_change_ && round_->lost.empty()) {
    outside_.post(kToAll, Verdict{round_->plan.round, false, 0, "the nodes of the job change\n"});
    return begin_gathering(now);
  }
  const bool in_vain = elastic_ && elastic_->failed_for_good();
  if (in_vain || restarts_ >= options_.launch.max_restarts) return finish(judgement.status, judgement.summary);
  ++restarts_;
  outside_.post(kToAll, Verdict{round_->plan.round, false, judgement.status,
                                judgement.summary + restart_text(restarts_, options_.launch.max_restarts)});
  begin_gathering(now);
}

// The job has ended of itself, whatever was decided meanwhile.
bool Conductor::nobody_was_stopped() const {
  return std::all_of(round_->ended.begin(), round_->ended.end(), [](const auto& node) {
    const std::vector<RankEnd>& ranks = node.second.ranks;
    return std::all_of(ranks.begin(), ranks.end(), [](const RankEnd& rank) { return rank.sent.empty(); });
  });
}

void Conductor::finish(int status, const std::string& summary) {
  const int round = round_ ? round_->plan.round : 0;
  last_verdict_ = {round, true, status, summary};
  outside_.post(kToAll, last_verdict_);
  phase_ = Phase::Finished;
}

void Conductor::give_up(const std::string& why) {
  if (round_runs()) order(Order::Act::Kill);
  if (phase_ != Phase::Finished) finish(1, why + "\n");
}

void Conductor::begin_gathering(Clock::time_point now) {
  phase_ = Phase::Gathering;
  nodes_change_ = false;
  gathering_since_ = now;
  enough_since_.reset();
  next_progress_ = now + kFirstProgress;
}

void Conductor::tick(Clock::time_point now) {
  if (phase_ == Phase::Gathering) gather(now);
  if (phase_ == Phase::Running && elastic_) rescue(now);
}

NodePlace Conductor::place_of(int agent, int first_rank) const {
  const Hello& hello = agents_.at(agent);
  return {agent, hello.host, hello.pid, hello.address, hello.nproc, hello.cores, first_rank};
}

void Conductor::start_round(const std::vector<int>& order) {
  RoundPlan plan;
  plan.round = next_round_++;
  plan.restart_count = restarts_;
  plan.job_id = job_id_;
  plan.about = options_.about;
  for (const int agent : order) {
    plan.nodes.push_back(place_of(agent, plan.world_size));
    plan.world_size += plan.nodes.back().nproc;
  }
  const Hello& first = agents_.at(order.front());
  plan.master_port = first.reserved_port;
  elastic_ = outside_.new_stores(plan, [this](const std::string& line) { tell(line + "\n"); });
  if (!options_.launch.store && !first.is_coordinators) plan.master_addr = first.address;
  started_.clear();
  without_.clear();
  joining_.clear();
  first_nodes_ = static_cast<int>(order.size());
  round_ = RoundEnd{plan, {}, {}, std::nullopt, ""};
  phase_ = Phase::Running;
  outside_.post(kToAll, plan);
}

void Conductor::rescue(Clock::time_point now) {
  const ElasticJob::Step step = elastic_->look(now);
  RoundPlan& plan = round_->plan;
  plan.world_size = elastic_->world_size();
  plan.store_port = elastic_->store_port();
  for (const auto& [node, order] : step.orders) post_to_node(node, order);
  for (const auto& [node, first_rank] : step.joined) {
    plan.nodes.at(static_cast<std::size_t>(node)).first_rank = first_rank;
    joining_.erase(node);
    post_to_node(node, plan);
  }
  if (step.give_up) stop_round(Order::Act::Settle);
}

}  // namespace tutti::tools
