#include <tutti/comm/base/deadline.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/elastic/elastic_job.h>
#include <tutti/tools/run/strays.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOldStoreTime{1000};  // for the cause of a failure to reach everybody
constexpr int kIdleRounds = 100;             // generations without a death: ranks that time out again and again

comm::Deadline soon() { return comm::Deadline::after(std::chrono::seconds(10)); }

std::unique_ptr<comm::TcpStoreServer> serve(const JobEnvironment& job, const ElasticPlace& place,
                                            const std::string& job_id, int world_size = -1) {
  comm::TcpStoreServerOptions options;
  options.bind_address = place.bind_address;
  options.job_id = job_id;
  options.job_secret = job.job_secret;
  options.world_size = world_size;
  return std::make_unique<comm::TcpStoreServer>(options);
}

std::string count_text(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

ElasticJob::ElasticJob(const JobEnvironment& job, ElasticPlace place, const ElasticLimits& limits, Say say)
    : job_(job),
      place_(std::move(place)),
      limits_(limits),
      say_(std::move(say)),
      control_server_(serve(job, place_, job.job_id)) {
  comm::TcpStoreOptions client;
  client.host = place_.bind_address.empty() ? comm::loopback_address() : place_.bind_address;
  client.port = control_server_->port();
  client.job_id = job.job_id;
  client.job_secret = job.job_secret;
  control_ = std::make_unique<comm::TcpStore>(client, soon());
  stores_.push_back({.server = serve(job, place_, job.job_id, job.world_size)});
  for (std::size_t node = 0; node < place_.ranks.size(); ++node) {
    for (int slot = 0; slot < place_.ranks[node]; ++slot) {
      members_.push_back({{.node = static_cast<int>(node), .slot = slot}, processes_++});
    }
  }
  publish();
}

ElasticJob::~ElasticJob() = default;

void ElasticJob::publish() {
  comm::Generation generation;
  generation.number = generation_;
  generation.first_size = job_.world_size;
  generation.master_addr = place_.told_address;
  generation.master_port = stores_.back().server->port();
  generation.job_id = generation_ == 0 ? job_.job_id : job_.job_id + "/" + std::to_string(generation_);
  for (const Member& member : members_) generation.workers.push_back(member.id.text());
  comm::publish_generation(*control_, generation, soon());
}

std::vector<std::string> ElasticJob::environment(int local_rank) const {
  return environment_of(static_cast<std::size_t>(local_rank));
}

std::vector<std::string> ElasticJob::environment_of(std::size_t rank) const {
  const int node = members_[rank].id.node;
  const auto on_node = [node](const Member& member) { return member.id.node == node; };
  const auto self = members_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::vector<std::string> result{
      "TUTTI_WORKER=" + members_[rank].id.text(),
      "RANK=" + std::to_string(rank),
      "LOCAL_RANK=" + std::to_string(std::count_if(members_.begin(), self, on_node)),
      "WORLD_SIZE=" + std::to_string(members_.size()),
      "LOCAL_WORLD_SIZE=" + std::to_string(std::count_if(members_.begin(), members_.end(), on_node)),
      "TORCHELASTIC_RESTART_COUNT=" + std::to_string(job_.restart_count + restarts_used_)};
  if (!place_.told_address.empty()) {
    result.push_back("TUTTI_CONTROL=" + comm::host_and_port(place_.told_address, control_port()));
  }
  return result;
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

RescuePlan ElasticJob::before_anybody_registered(std::span<const RankEnd> ranks, Clock::time_point now) {
  RescuePlan plan;
  std::optional<Clock::time_point> first_death;
  bool any_runs = false;
  for (const Member& member : members_) {
    const RankEnd& end = ranks[member.process];
    any_runs = any_runs || end.running;
    if (!end.running && end.code != 0 && (!first_death || end.ended < *first_death)) first_death = end.ended;
  }
  if (first_death && (!any_runs || now >= *first_death + kSettleTime)) plan.kind = RescuePlan::Kind::GiveUp;
  return plan;
}

std::vector<WorkerFate> ElasticJob::fates(std::span<const RankEnd> ranks) {
  left_ = comm::left_generation(*control_, generation_, soon());
  std::vector<WorkerFate> result;
  for (const Member& member : members_) {
    const RankEnd& end = ranks[member.process];
    const bool left =
        std::any_of(left_.begin(), left_.end(), [&](const auto& leaver) { return leaver.worker == member.id.text(); });
    if (gone_.contains(member.id.node)) {
      result.push_back(WorkerFate::Gone);
    } else if (!end.running) {
      result.push_back(end.code == 0 ? WorkerFate::Finished : WorkerFate::Died);
    } else if (left) {
      result.push_back(WorkerFate::Left);
    } else {
      result.push_back(is_frozen(end) ? WorkerFate::Frozen : WorkerFate::Runs);
    }
  }
  return result;
}

bool ElasticJob::is_frozen(const RankEnd& rank) const { return place_.on_nodes ? rank.frozen : is_stopped(rank.pid); }

bool ElasticJob::somebody_finished(std::span<const RankEnd> ranks) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return !ranks[member.process].running && ranks[member.process].code == 0;
  });
}

RescuePlan ElasticJob::look(std::span<const RankEnd> ranks, Clock::time_point now) {
  close_old_stores(now);
  const bool died = std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return gone_.contains(member.id.node) || (!ranks[member.process].running && ranks[member.process].code != 0);
  });
  if (!died && now < next_look_) return {};
  next_look_ = now + look_every();
  look_for_members();
  if (!elastic_) return before_anybody_registered(ranks, now);
  if (died && note_final_failure()) return {.kind = RescuePlan::Kind::GiveUp};
  const std::vector<WorkerFate> seen = fates(ranks);
  if (!died && left_.empty()) {
    trouble_since_.reset();
    if (somebody_finished(ranks)) return end_late_ranks(ranks);
    if (coming_.empty()) return {};
    NextGeneration larger;
    larger.kind = NextGeneration::Kind::Form;
    for (std::size_t place = 0; place < members_.size(); ++place) larger.survivors.push_back(place);
    return form(larger, ranks, now);
  }
  if (!trouble_since_) trouble_since_ = now;
  const auto since = std::chrono::duration_cast<milliseconds>(now - *trouble_since_);
  return act(next_generation(seen, restarts_used_, limits_, since), ranks, now);
}

RescuePlan ElasticJob::end_late_ranks(std::span<const RankEnd> ranks) {
  const auto is_new = [&](const Member& member) { return member.since == generation_; };
  if (generation_ == 0 || std::none_of(members_.begin(), members_.end(), is_new)) return {};  // do not ask the store
  std::vector<Attendance> attendance;
  for (const Member& member : members_) {
    attendance.push_back({.running = ranks[member.process].running, .since = member.since});
    if (!attendance.back().running)
      attendance.back().entered = comm::entered_generation(*control_, member.id.text(), soon());
  }
  const auto [late, finished] = late_ranks(attendance, generation_);
  if (late.empty()) return {};
  RescuePlan plan{.kind = RescuePlan::Kind::GoOn};
  const std::string without = std::to_string(ranks[members_[finished].process].rank) + " had finished without it";
  for (const std::size_t place : late) {
    const RankEnd& rank = ranks[members_[place].process];
    plan.lost.push_back(members_[place].process);
    say_("rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) +
         ") has come too late and is ended: rank " + without);
  }
  for (auto place = late.rbegin(); place != late.rend(); ++place)
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(*place));
  return plan;
}

RescuePlan ElasticJob::act(const NextGeneration& next, std::span<const RankEnd> ranks, Clock::time_point now) {
  using Kind = NextGeneration::Kind;
  RescuePlan plan;
  if (next.kind == Kind::KillSilent) {
    plan.kind = RescuePlan::Kind::GoOn;
    for (const std::size_t place : next.silent) {
      const RankEnd& rank = ranks[members_[place].process];
      if (rank.sent.contains(SIGKILL)) continue;
      plan.frozen.push_back(members_[place].process);
      say_("rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) + ") " +
           (is_frozen(rank) ? "is frozen (SIGSTOP or a debugger)" : "does not answer") + " and is killed" +
           (left_.empty() ? "" : "; worker " + left_.front().worker + " says: " + left_.front().reason));
    }
  }
  if (next.kind == Kind::TooFew || generation_ >= limits_.max_restarts + job_.world_size + kIdleRounds) {
    plan.kind = RescuePlan::Kind::GiveUp;
    if (restarts_used_ > 0 || limits_.min_ranks < job_.world_size) {
      say_("the job ends: " + count_text(next.survivors.size(), "rank") + " left, at least " +
           std::to_string(limits_.min_ranks) + " needed, and " +
           count_text(static_cast<std::size_t>(restarts_used_), "restart") + " of " +
           std::to_string(limits_.max_restarts) + " used");
    }
    return plan;
  }
  if (next.kind == Kind::Form || next.kind == Kind::AllDone) return form(next, ranks, now);
  return plan;
}

RescuePlan ElasticJob::form(const NextGeneration& next, std::span<const RankEnd> ranks, Clock::time_point now) {
  RescuePlan plan{.kind = RescuePlan::Kind::GoOn};
  for (const std::size_t place : next.lost) plan.lost.push_back(members_[place].process);
  const bool any_died = std::any_of(next.lost.begin(), next.lost.end(),
                                    [&](std::size_t place) { return !gone_.contains(members_[place].id.node); });
  const bool replace = next.replace && any_died;
  if (replace) ++restarts_used_;
  tell(next, ranks, replace);
  std::vector<std::size_t> fresh;  // ranks in the new generation
  std::vector<Member> members;
  for (std::size_t place = 0; place < members_.size(); ++place) {
    const Member& member = members_[place];
    const bool lost = std::find(next.lost.begin(), next.lost.end(), place) != next.lost.end();
    const bool survives = std::find(next.survivors.begin(), next.survivors.end(), place) != next.survivors.end();
    if (survives) members.push_back(member);
    if (!lost || !replace || gone_.contains(member.id.node)) continue;
    fresh.push_back(members.size());
    members.push_back({{member.id.node, member.id.slot, member.id.incarnation + 1}, processes_++, generation_ + 1});
  }
  if (next.kind == NextGeneration::Kind::Form && !somebody_finished(ranks)) add_coming(members, plan);
  members_ = std::move(members);
  trouble_since_.reset();
  if (members_.empty()) return plan;
  ++generation_;
  stores_.back().close_at = now + kOldStoreTime;
  stores_.push_back({.server = serve(job_, place_, job_.job_id + "/" + std::to_string(generation_))});
  publish();
  for (const std::size_t rank : fresh) {
    plan.starts.push_back(
        {members_[rank].id.node, members_[rank].id.slot, job_.restart_count + restarts_used_, environment_of(rank)});
  }
  return plan;
}

void ElasticJob::add_coming(std::vector<Member>& members, RescuePlan& plan) {
  for (const auto& [node, ranks] : coming_) {
    if (gone_.contains(node)) continue;
    say_("node " + std::to_string(node) + " joins with " + count_text(static_cast<std::size_t>(ranks), "rank"));
    for (int slot = 0; slot < ranks; ++slot)
      members.push_back({{.node = node, .slot = slot}, processes_++, generation_ + 1});
    plan.joined.push_back(node);
  }
  coming_.clear();
}

void ElasticJob::tell(const NextGeneration& next, std::span<const RankEnd> ranks, bool replaced) {
  std::size_t died = 0;
  for (const std::size_t place : next.lost) {
    if (gone_.contains(members_[place].id.node)) continue;  // that has been said
    ++died;
    say_(describe(ranks[members_[place].process]));
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

/// An old one must not keep ranks waiting for somebody who will never come there.
void ElasticJob::close_old_stores(Clock::time_point now) {
  for (Served& served : stores_) {
    if (served.server && served.close_at && now >= *served.close_at) served.server.reset();
  }
}

}  // namespace tutti::tools
