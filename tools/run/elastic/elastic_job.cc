#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/elastic/elastic_job.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOldStoreTime{1000};  // for the cause of a failure to reach everybody
constexpr int kIdleRounds = 100;             // generations without a death: ranks that time out again and again

comm::Deadline soon() { return comm::Deadline::after(std::chrono::seconds(10)); }

std::string count_text(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

ElasticJob::ElasticJob(const RoundPlan& plan, const std::string& bind_address, const std::string& job_secret,
                       const ElasticLimits& limits, Say say)
    : plan_(plan),
      bind_address_(bind_address),
      secret_(job_secret),
      limits_(limits),
      say_(std::move(say)),
      control_server_(serve(plan.job_id)),
      of_node_(plan.nodes.size()) {
  const comm::TcpStoreOptions client{.host = bind_address.empty() ? comm::loopback_address() : bind_address,
                                     .port = control_server_->port(),
                                     .job_id = plan.job_id,
                                     .job_secret = job_secret};
  control_ = std::make_unique<comm::TcpStore>(client, soon());
  store_ = serve(plan.job_id, plan.world_size);
  for (int node = 0; node < static_cast<int>(plan.nodes.size()); ++node) {
    for (int slot = 0; slot < place_of(node).nproc; ++slot)
      members_.push_back({{.node = node, .slot = slot}, add_process(node, place_of(node).first_rank + slot)});
  }
  publish();
}

ElasticJob::~ElasticJob() = default;

std::unique_ptr<comm::TcpStoreServer> ElasticJob::serve(const std::string& job_id, int world_size) const {
  return std::make_unique<comm::TcpStoreServer>(comm::TcpStoreServerOptions{
      .bind_address = bind_address_, .job_id = job_id, .job_secret = secret_, .world_size = world_size});
}

// Its node will tell the process id, and how it fares.
std::size_t ElasticJob::add_process(int node, int rank) {
  std::vector<std::size_t>& of_node = of_node_[static_cast<std::size_t>(node)];
  Process process{node, {}};
  process.end.place = static_cast<int>(of_node.size());
  process.end.rank = rank;
  process.end.host = place_of(node).host;
  process.end.started = Clock::now();
  of_node.push_back(processes_.size());
  processes_.push_back(process);
  return of_node.back();
}

void ElasticJob::changed(int node, const std::vector<RankEnd>& ranks) {
  const std::vector<std::size_t>& of_node = of_node_.at(static_cast<std::size_t>(node));
  for (const RankEnd& rank : ranks) {
    const auto place = static_cast<std::size_t>(rank.place);
    if (place >= of_node.size()) {
      throw comm::Error(comm::ErrorCode::Protocol, "node " + std::to_string(node) + " tells of its process " +
                                                       std::to_string(rank.place) + ", but has been told to start " +
                                                       std::to_string(of_node.size()));
    }
    RankEnd& end = processes_[of_node[place]].end;
    const std::set<int> sent = end.sent;
    const bool replaced = end.replaced;
    end = rank;
    end.sent.insert(sent.begin(), sent.end());
    end.replaced = replaced;
  }
}

void ElasticJob::node_comes(const NodePlace& place) {
  coming_.push_back(static_cast<int>(plan_.nodes.size()));
  plan_.nodes.push_back(place);
  of_node_.emplace_back();
}

std::string ElasticJob::job_id() const {
  return generation_ == 0 ? plan_.job_id : plan_.job_id + "/" + std::to_string(generation_);
}

void ElasticJob::publish() {
  comm::Generation generation;
  generation.number = generation_;
  generation.first_size = plan_.world_size;
  generation.master_port = store_->port();
  generation.job_id = job_id();
  for (const Member& member : members_) generation.workers.push_back(member.id.text());
  comm::publish_generation(*control_, generation, soon());
}

std::vector<std::string> ElasticJob::environment_of(std::size_t rank) const {
  const int node = members_[rank].id.node;
  const auto on_node = [node](const Member& member) { return member.id.node == node; };
  const auto self = members_.begin() + static_cast<std::ptrdiff_t>(rank);
  return {"TUTTI_WORKER=" + members_[rank].id.text(),
          "RANK=" + std::to_string(rank),
          "LOCAL_RANK=" + std::to_string(std::count_if(members_.begin(), self, on_node)),
          "WORLD_SIZE=" + std::to_string(members_.size()),
          "LOCAL_WORLD_SIZE=" + std::to_string(std::count_if(members_.begin(), members_.end(), on_node)),
          "TORCHELASTIC_RESTART_COUNT=" + std::to_string(plan_.restart_count + restarts_used_)};
}

bool ElasticJob::look_for_members() {
  for (const Member& member : members_) {
    if (!elastic_) elastic_ = comm::is_member(*control_, member.id.text(), soon());
  }
  return elastic_;
}

bool ElasticJob::note_final_failure() {
  if (failed_for_good_) return true;
  const std::vector<comm::WorkerReason> failed = comm::failed_for_good(*control_, soon());
  if (failed.empty()) return false;
  failed_for_good_ = true;
  say_("the job ends, as a restart would not help: worker " + failed.front().worker + ": " + failed.front().reason);
  return true;
}

bool ElasticJob::use_restart() {
  if (restarts_used_ >= limits_.max_restarts) return false;
  ++restarts_used_;
  return true;
}

ElasticJob::Step ElasticJob::before_anybody_registered(Clock::time_point now) const {
  std::optional<Clock::time_point> first_death;
  bool any_runs = false;
  for (const Member& member : members_) {
    const RankEnd& end = processes_[member.process].end;
    any_runs = any_runs || end.running;
    if (!end.running && end.code != 0 && (!first_death || end.ended < *first_death)) first_death = end.ended;
  }
  return {.give_up = first_death && (!any_runs || now >= *first_death + kSettleTime)};
}

std::vector<WorkerFate> ElasticJob::fates() {
  left_ = comm::left_generation(*control_, generation_, soon());
  std::vector<WorkerFate> result;
  for (const Member& member : members_) {
    const RankEnd& end = processes_[member.process].end;
    const bool left =
        std::any_of(left_.begin(), left_.end(), [&](const auto& leaver) { return leaver.worker == member.id.text(); });
    if (gone_.contains(member.id.node)) {
      result.push_back(WorkerFate::Gone);
    } else if (!end.running) {
      result.push_back(end.code == 0 ? WorkerFate::Finished : WorkerFate::Died);
    } else if (left) {
      result.push_back(WorkerFate::Left);
    } else {
      result.push_back(end.frozen ? WorkerFate::Frozen : WorkerFate::Runs);
    }
  }
  return result;
}

bool ElasticJob::has_died(const Member& member) const {
  const RankEnd& end = processes_[member.process].end;
  return gone_.contains(member.id.node) || (!end.running && end.code != 0);
}

bool ElasticJob::somebody_finished() const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    const RankEnd& end = processes_[member.process].end;
    return !end.running && end.code == 0;
  });
}

ElasticJob::Step ElasticJob::look(Clock::time_point now) {
  // An old store must not keep ranks waiting for others that will never come there.
  if (old_store_ && now >= close_old_at_) old_store_.reset();
  const bool died = std::any_of(members_.begin(), members_.end(), [&](const Member& m) { return has_died(m); });
  if (!died && now < next_look_) return {};
  next_look_ = now + kLookEvery;
  look_for_members();
  if (!elastic_) return before_anybody_registered(now);
  if (died && note_final_failure()) return {.give_up = true};
  const std::vector<WorkerFate> seen = fates();
  if (!died && left_.empty()) {
    trouble_since_.reset();
    if (somebody_finished()) return end_late_ranks();
    if (coming_.empty()) return {};
    NextGeneration larger;
    larger.kind = NextGeneration::Kind::Form;
    for (std::size_t place = 0; place < members_.size(); ++place) larger.survivors.push_back(place);
    return form(larger, now);
  }
  if (!trouble_since_) trouble_since_ = now;
  const auto since = std::chrono::duration_cast<milliseconds>(now - *trouble_since_);
  return act(next_generation(seen, restarts_used_, limits_, since), now);
}

Order& ElasticJob::order_for(int node, Step& step) const {
  return step.orders.try_emplace(node, Order{plan_.round, Order::Act::Rescue}).first->second;
}

void ElasticJob::count_as_lost(std::size_t process, Step& step) {
  RankEnd& end = processes_[process].end;
  end.replaced = true;
  order_for(processes_[process].node, step).lost.push_back(static_cast<std::size_t>(end.place));
}

ElasticJob::Step ElasticJob::end_late_ranks() {
  const auto is_new = [&](const Member& member) { return member.since == generation_; };
  if (generation_ == 0 || std::none_of(members_.begin(), members_.end(), is_new)) return {};  // do not ask the store
  std::vector<Attendance> attendance;
  for (const Member& member : members_) {
    attendance.push_back({.running = processes_[member.process].end.running, .since = member.since});
    if (!attendance.back().running)
      attendance.back().entered = comm::entered_generation(*control_, member.id.text(), soon());
  }
  const auto [late, finished] = late_ranks(attendance, generation_);
  if (late.empty()) return {};
  Step step;
  const std::string without = std::to_string(end_of(finished).rank) + " had finished without it";
  for (const std::size_t place : late) {
    count_as_lost(members_[place].process, step);
    say_("rank " + std::to_string(end_of(place).rank) + " (pid " + std::to_string(end_of(place).pid) +
         ") has come too late and is ended: rank " + without);
  }
  for (auto place = late.rbegin(); place != late.rend(); ++place)
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(*place));
  return step;
}

ElasticJob::Step ElasticJob::act(const NextGeneration& next, Clock::time_point now) {
  using Kind = NextGeneration::Kind;
  Step step;
  if (next.kind == Kind::KillSilent) {
    for (const std::size_t place : next.silent) {
      Process& process = processes_[members_[place].process];
      const RankEnd& rank = process.end;
      if (!process.end.sent.insert(SIGKILL).second) continue;
      order_for(process.node, step).frozen.push_back(static_cast<std::size_t>(rank.place));
      say_("rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) + ") " +
           (rank.frozen ? "is frozen (SIGSTOP or a debugger)" : "does not answer") + " and is killed" +
           (left_.empty() ? "" : "; worker " + left_.front().worker + " says: " + left_.front().reason));
    }
  }
  if (next.kind == Kind::TooFew || generation_ >= limits_.max_restarts + plan_.world_size + kIdleRounds) {
    step.give_up = true;
    if (restarts_used_ > 0 || limits_.min_ranks < plan_.world_size) {
      say_("the job ends: " + count_text(next.survivors.size(), "rank") + " left, at least " +
           std::to_string(limits_.min_ranks) + " needed, and " +
           count_text(static_cast<std::size_t>(restarts_used_), "restart") + " of " +
           std::to_string(limits_.max_restarts) + " used");
    }
    return step;
  }
  if (next.kind == Kind::Form || next.kind == Kind::AllDone) return form(next, now);
  return step;
}

ElasticJob::Step ElasticJob::form(const NextGeneration& next, Clock::time_point now) {
  Step step;
  for (const std::size_t place : next.lost) count_as_lost(members_[place].process, step);
  const bool any_died = std::any_of(next.lost.begin(), next.lost.end(),
                                    [&](std::size_t place) { return !gone_.contains(members_[place].id.node); });
  const bool replace = next.replace && any_died;
  if (replace) ++restarts_used_;
  tell(next, replace);
  std::vector<std::size_t> fresh;  // ranks in the new generation
  std::vector<Member> members;
  for (std::size_t place = 0; place < members_.size(); ++place) {
    const Member& member = members_[place];
    const bool lost = std::find(next.lost.begin(), next.lost.end(), place) != next.lost.end();
    const bool survives = std::find(next.survivors.begin(), next.survivors.end(), place) != next.survivors.end();
    if (survives) members.push_back(member);
    if (!lost || !replace || gone_.contains(member.id.node)) continue;
    fresh.push_back(members.size());
    const comm::WorkerId id{member.id.node, member.id.slot, member.id.incarnation + 1};
    members.push_back({id, add_process(id.node, place_of(id.node).first_rank + id.slot), generation_ + 1});
  }
  if (next.kind == NextGeneration::Kind::Form && !somebody_finished()) add_coming(members, step);
  members_ = std::move(members);
  trouble_since_.reset();
  if (members_.empty()) return step;
  ++generation_;
  old_store_ = std::exchange(store_, serve(job_id()));
  close_old_at_ = now + kOldStoreTime;
  publish();
  for (const std::size_t rank : fresh) {
    const comm::WorkerId& id = members_[rank].id;
    order_for(id.node, step).starts.push_back({id.slot, plan_.restart_count + restarts_used_, environment_of(rank)});
  }
  return step;
}

void ElasticJob::add_coming(std::vector<Member>& members, Step& step) {
  for (const int node : std::exchange(coming_, {})) {
    if (gone_.contains(node)) continue;
    NodePlace& place = plan_.nodes[static_cast<std::size_t>(node)];
    say_("node " + std::to_string(node) + " joins with " + count_text(static_cast<std::size_t>(place.nproc), "rank"));
    place.first_rank = static_cast<int>(members.size());
    step.joined.emplace_back(node, place.first_rank);
    for (int slot = 0; slot < place.nproc; ++slot)
      members.push_back({{.node = node, .slot = slot}, add_process(node, place.first_rank + slot), generation_ + 1});
  }
}

void ElasticJob::tell(const NextGeneration& next, bool replaced) {
  std::size_t died = 0;
  for (const std::size_t place : next.lost) {
    if (gone_.contains(members_[place].id.node)) continue;  // that has been said
    ++died;
    say_(describe(end_of(place)));
  }
  if (next.kind == NextGeneration::Kind::AllDone) {
    say_("the others had finished: the job is done");
    return;
  }
  const std::string survivors =
      count_text(next.survivors.size(), "rank") + (next.survivors.size() == 1 ? " goes" : " go");
  if (next.lost.empty() && left_.empty()) return;  // others come
  if (next.lost.empty()) {
    say_("no rank was lost, but their group failed (" + (left_.empty() ? std::string() : left_.front().reason) +
         "); they form another");
  } else if (replaced) {
    say_(count_text(died, "rank") + (died == 1 ? " starts" : " start") + " again, " + survivors + " on (restart " +
         std::to_string(restarts_used_) + " of at most " + std::to_string(limits_.max_restarts) + ")");
  } else {
    say_(survivors + " on, of " + std::to_string(members_.size()));
  }
}

}  // namespace tutti::tools
