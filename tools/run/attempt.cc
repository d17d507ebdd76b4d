#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/tools/run/attempt.h>
#include <tutti/tools/run/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKillTime{5000};  // a process that SIGKILL has not ended by then hangs in the kernel
constexpr char kPassedOn[] =
    "  This launcher had got it and passed it on to all ranks; a program that does not handle it ends.\n";
constexpr char kUncaught[] = "  It ended by an error of Tutti's that it did not catch.\n";
constexpr milliseconds kLingerTime{100};  // after a failure: for output that is still in the pipes

}  // namespace

Attempt::Attempt(LaunchContext& context, const JobEnvironment& job, AttemptControl& control)
    : context_(context),
      options_(context.options),
      job_(job),
      control_(control),
      printer_(options_, job, context.console) {}

Attempt::~Attempt() { finish(); }

void Attempt::start() {
  refuse_terminal_input();
  look_after_children();
  // Pipes and log files of this node's ranks; clients of the stores, of all nodes perhaps, are yet to come.
  const std::size_t own = 4 * static_cast<std::size_t>(options_.nproc) + 16;
  comm::try_raise_descriptor_limit(own + 3 * static_cast<std::size_t>(job_.plan.world_size));
  comm::raise_descriptor_limit(own, "the output of " + std::to_string(options_.nproc) + " ranks");
  for (int local_rank = 0; local_rank < options_.nproc; ++local_rank) {
    start_rank(local_rank, job_, {},
               options_.local.stdin_rank == job_.place().first_rank + local_rank ? STDIN_FILENO : -1);
  }
  tell_changes();
}

// A rank is in the background of a terminal, and would be stopped by reading there.
void Attempt::refuse_terminal_input() const {
  const std::optional<int> reader = options_.local.stdin_rank;
  const bool is_here =
      reader && *reader >= job_.place().first_rank && *reader < job_.place().first_rank + options_.nproc;
  if (!is_here || ::isatty(STDIN_FILENO) == 0) return;
  const std::string option = "--stdin " + std::to_string(*reader);
  const std::string what =
      ": standard input is a terminal, but must be a file or a pipe; to type write: cat | tutti run ";
  throw comm::Error(comm::ErrorCode::InvalidArgument, option + what + option + " ...");
}

void Attempt::start_rank(int local_rank, const JobEnvironment& job, const std::vector<std::string>& ordered,
                         int stdin_fd) {
  const int rank = job_.place().first_rank + local_rank;
  std::vector<std::string> extra = local_variables(options_.local, local_rank, rank, job_.plan.world_size);
  for (const std::vector<std::string>& more : {options_.environment, ordered})
    extra.insert(extra.end(), more.begin(), more.end());
  SpawnPlan plan{options_.command, rank_environment(job, local_rank, extra), context_.keep_open};
  if (!options_.local.cpus.empty()) plan.cpus = options_.local.cpus.at(static_cast<std::size_t>(local_rank));
  plan.stdin_fd = stdin_fd;
  const Clock::time_point now = Clock::now();
  const SpawnedRank spawned = spawn_rank(plan, context_.signals, context_.keeper);
  RankEnd end;
  end.rank = rank;
  end.place = static_cast<int>(ends_.size());
  end.host = job_.place().host;
  end.cpus = to_ranges(plan.cpus);
  end.pid = spawned.pid;
  end.started = now;
  ends_.push_back(end);
  changed_.push_back(end);
  outputs_.push_back(std::make_unique<RankOutput>(options_, job, local_rank, spawned.out, spawned.err, printer_));
}

void Attempt::run() {
  while (state_ != State::Done) {
    poll_once();
    advance(Clock::now());
  }
  finish();
}

void Attempt::poll_once() {
  std::vector<pollfd> entries{{context_.signals.fd(), POLLIN, 0}};
  context_.console.add_poll_entries(entries);
  for (const auto& output : outputs_) output->add_poll_entries(entries);
  entries.push_back({control_.fd(), POLLIN, 0});
  if (::poll(entries.data(), entries.size(), poll_timeout()) < 0) return;
  for (const pollfd& entry : entries) {
    const bool is_rank =
        std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& output) { return output->handle(entry); });
    if (!is_rank && entry.fd != context_.signals.fd()) context_.console.handle(entry);
  }
  take_signals();
  note_exits();
  for (const Order& order : control_.take_orders()) obey(order);
}

int Attempt::poll_timeout() const {
  std::optional<Clock::time_point> first = deadline_;
  if (options_.elastic && state_ == State::Running) {
    const Clock::time_point look = Clock::now() + kLookEvery;
    if (!first || look < *first) first = look;
  }
  if (!first) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*first - Clock::now());
  return static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, 3'600'000));
}

void Attempt::take_signals() {
  while (const std::optional<int> signal = context_.signals.next()) {
    if (*signal == SIGTSTP) {
      suspend();
    } else if (*signal == SIGCHLD) {
      look_after_children();
    } else {
      const bool again = asks_to_end(*signal) && interrupted_by_.has_value();
      pass_on(*signal, again);
      control_.signal_came(*signal, again);
    }
  }
}

void Attempt::pass_on(int signal, bool again) {
  if (!asks_to_end(signal)) {
    // To the rank alone: programs that it has started would die of a signal they do not expect.
    for (const RankEnd& rank : ends_) {
      if (rank.running && ::kill(rank.pid, signal) == 0) passed_on_.insert(signal);
    }
    return;
  }
  if (!again) interrupted_by_ = signal;
  signal_all(again ? SIGKILL : signal);
  signal_all(SIGCONT);
  const milliseconds grace = signal == SIGTERM ? options_.term_grace : options_.grace;
  enter(again ? State::Killing : State::Terminating, again ? kKillTime : grace);
}

void Attempt::obey(const Order& order) {
  if (state_ == State::Lingering || state_ == State::Done) return;
  switch (order.act) {
    case Order::Act::Settle:
      if (state_ == State::Running) note_failure(Clock::now());
      break;
    case Order::Act::Terminate:
      if (state_ != State::Running && state_ != State::Settling) break;
      terminate();
      enter(State::Terminating, options_.term_grace);
      break;
    case Order::Act::Kill:
      signal_all(SIGKILL);
      enter(State::Killing, kKillTime);
      break;
    case Order::Act::Signal:
      if (asks_to_end(order.signal)) {
        if (interrupted_by_) break;
        context_.signals.note_request();  // this node's scheduler may be about to send the same
      }
      pass_on(order.signal, false);
      break;
    case Order::Act::Rescue:
      if (state_ == State::Running) rescue(order);
      break;
  }
}

// Ctrl-Z: the ranks are no members of the terminal's foreground group, so they are stopped and woken from here.
void Attempt::suspend() {
  if (options_.nodes) return;  // the other nodes would count this one as frozen, and end the job
  signal_all(SIGSTOP);
  ::raise(SIGSTOP);
  signal_all(SIGCONT);
}

void Attempt::note_exits() {
  bool failed = false;
  for (RankEnd& rank : ends_) {
    if (!rank.running) continue;
    const bool was_frozen = rank.frozen;
    const bool has_ended = note_end(rank);
    if (options_.elastic && state_ == State::Running) rank.frozen = !has_ended && is_stopped(rank.pid);
    if (has_ended) {
      if (rank.failed()) rank.evidence = evidence_.about(rank);
      if (rank.by_signal && passed_on_.contains(rank.code)) rank.evidence = kPassedOn;
      failed = failed || rank.failed();
    }
    if (has_ended || rank.frozen != was_frozen) changed_.push_back(rank);
  }
  if (state_ != State::Running) return;
  tell_changes();
  if (failed && !options_.elastic) note_failure(Clock::now());
}

void Attempt::tell_changes() {
  if (!changed_.empty() || options_.elastic) control_.ranks_changed(std::exchange(changed_, {}));
}

// Children other than ranks: the keeper, and what ranks have left behind.
void Attempt::look_after_children() {
  if (const std::string text = context_.keeper.replace_if_dead(); !text.empty()) context_.say(text + "\n");
  strays_.reap(own_children());
}

std::set<pid_t> Attempt::own_children() const {
  std::set<pid_t> result{context_.keeper.pid()};
  for (const RankEnd& rank : ends_) result.insert(rank.pid);
  return result;
}

void Attempt::rescue(const Order& order) {
  for (const std::size_t place : order.frozen) signal_group(ends_.at(place), SIGKILL);
  for (const std::size_t place : order.lost) {
    signal_group(ends_.at(place), SIGKILL);  // what it has left behind
    ends_[place].replaced = true;
  }
  for (const Order::Start& start : order.starts) {
    JobEnvironment job = job_;
    job.plan.restart_count = start.restart_count;
    start_rank(start.local_rank, job, start.environment, -1);
  }
}

void Attempt::note_failure(Clock::time_point now) {
  for (RankEnd& rank : ends_) rank.frozen = rank.running && is_stopped(rank.pid);
  state_ = State::Settling;
  deadline_ = now + kSettleTime;
}

void Attempt::advance(Clock::time_point now) {
  if (state_ != State::Lingering && all_ended() && !waits_for_orders()) {
    const bool clean = state_ == State::Running && !find_culprit(ends_);
    enter(State::Lingering, clean ? options_.grace : kLingerTime);
  }
  if (state_ == State::Lingering && all_output_finished()) state_ = State::Done;
  if (state_ == State::Settling && only_frozen_ranks_run()) terminate();  // they will not end by themselves
  if (!deadline_ || now < *deadline_) return;
  switch (state_) {
    case State::Settling:
      terminate();
      break;
    case State::Terminating:
      signal_all(SIGKILL);
      enter(State::Killing, kKillTime);
      break;
    case State::Killing:
    case State::Lingering:
      state_ = State::Done;
      break;
    case State::Running:
    case State::Done:
      break;
  }
}

void Attempt::enter(State state, milliseconds time) {
  state_ = state;
  deadline_ = Clock::now() + time;
}

void Attempt::terminate() {
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // a stopped process acts on SIGTERM only once it runs
  enter(State::Terminating, options_.grace);
}

void Attempt::signal_group(RankEnd& rank, int signal) {
  if (::kill(-rank.pid, signal) == 0 && rank.running) rank.sent.insert(signal);
}

void Attempt::signal_all(int signal) {
  for (RankEnd& rank : ends_) signal_group(rank, signal);
}

void Attempt::finish() {
  if (finished_) return;
  finished_ = true;
  signal_all(SIGKILL);
  for (const auto& output : outputs_) output->finish();
  printer_.flush();
  const std::optional<int> culprit = find_culprit(ends_);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    RankEnd& end = ends_[i];
    const auto& lines = outputs_[i]->tail();
    end.error_told = outputs_[i]->told_uncaught();
    if (end.error_told && end.by_signal && end.code == SIGABRT) {
      end.evidence = kUncaught + (end.core_dumped ? end.evidence : "");
    } else if (!lines.empty()) {
      end.last_lines.assign(culprit == end.place ? lines.begin() : lines.end() - 1, lines.end());
    }
  }
  for (RankEnd& rank : ends_) {
    context_.keeper.forget(rank.pid);
    // run() has given up on a rank that is still running then; waiting for it here could take for ever.
    ::waitpid(rank.pid, nullptr, state_ == State::Done && rank.running ? WNOHANG : 0);
  }
  strays_.end(own_children());
}

bool Attempt::all_ended() const {
  return std::none_of(ends_.begin(), ends_.end(), [](const RankEnd& rank) { return rank.running; });
}

// It has not been decided yet what follows the end of a rank: others may be started although none runs.
bool Attempt::waits_for_orders() const {
  return options_.elastic && state_ == State::Running &&
         std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& r) { return r.code != 0 && !r.replaced; });
}

bool Attempt::only_frozen_ranks_run() const {
  return std::none_of(ends_.begin(), ends_.end(), [](const RankEnd& rank) { return rank.running && !rank.frozen; });
}

bool Attempt::all_output_finished() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const auto& output) { return output->finished(); });
}

}  // namespace tutti::tools
