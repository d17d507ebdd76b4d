#include <poll.h>
#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/session.h>

#include <algorithm>
#include <cstring>

namespace tutti::labs {

using std::chrono::steady_clock;

double RunResult::last_finish() const { return finish.empty() ? 0 : *std::max_element(finish.begin(), finish.end()); }

std::uint64_t RunResult::messages() const {
  std::uint64_t sum = 0;
  for (const Traffic& rank : traffic) sum += rank.messages_sent;
  return sum;
}

std::uint64_t RunResult::bytes() const {
  std::uint64_t sum = 0;
  for (const Traffic& rank : traffic) sum += rank.bytes_sent;
  return sum;
}

const Incident* RunResult::first_wrong() const {
  if (incident) return &*incident;
  return offences.empty() ? nullptr : &offences.front();
}

Session::Session(const std::filesystem::path& program, const std::filesystem::path& empty_folder, int world_size,
                 const Limits& limits, const Patience& patience)
    : patience_(patience) {
  for (int rank = 0; rank < world_size; ++rank) {
    ranks_.emplace_back();
    ranks_.back().link = std::make_unique<RankLink>(program, empty_folder, limits);
  }
}

void Session::fail(Incident incident) {
  if (broken_) return;  // the first one is the cause
  broken_ = true;
  result_.incident = std::move(incident);
}

bool Session::is_any(std::initializer_list<State> states) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return std::find(states.begin(), states.end(), rank.state) != states.end();
  });
}

/// While any rank is in one of `states`.
void Session::loop_while(std::initializer_list<State> states) {
  last_sign_ = steady_clock::now();
  while (!broken_ && is_any(states)) {
    if (is_any({State::Running, State::Starting})) {
      wait_for_activity();
    } else {
      take_event();
    }
  }
}

void Session::wait_for_activity() {
  std::vector<pollfd> watched;
  for (const Rank& rank : ranks_) {
    const short wanted = static_cast<short>(POLLIN | (rank.link->has_unsent() ? POLLOUT : 0));
    watched.push_back({rank.link->process().socket(), wanted, 0});
    watched.push_back({rank.link->is_output_open() ? rank.link->process().output() : -1, POLLIN, 0});
  }
  const int found = ::poll(watched.data(), watched.size(), 200);
  for (int rank = 0; found > 0 && rank < world_size() && !broken_; ++rank) {
    RankLink& link = *at(rank).link;
    const auto i = static_cast<std::size_t>(rank) * 2;
    if (watched[i + 1].revents != 0) link.read_output();
    if (link.output_bytes() > kMostOutput) {
      const Whereabouts where = whereabouts(rank);
      return fail({diagnosis::kTooMuchOutput,
                   "rank " + std::to_string(rank) + " has written more than " + std::to_string(kMostOutput / 1024) +
                       " KiB of output and was stopped" + where.after(),
                   rank});
    }
    if ((watched[i].revents & POLLOUT) != 0) link.flush();
    if ((watched[i].revents & ~POLLOUT) == 0) continue;
    last_sign_ = steady_clock::now();
    const bool is_open = link.receive();
    take_messages(rank);
    if (!is_open && !broken_) lost(rank);
  }
  if (!broken_) look_at_clocks();
}

void Session::look_at_clocks() {
  if (steady_clock::now() - last_look_ < std::chrono::milliseconds(50)) return;
  last_look_ = steady_clock::now();
  const bool is_silent = steady_clock::now() - last_sign_ > patience_.silence;
  for (int rank = 0; rank < world_size(); ++rank) {
    Rank& one = at(rank);
    if (one.state != State::Running && one.state != State::Starting) continue;
    const auto used = one.link->process().cpu_time();
    if (!one.cpu_mark) one.cpu_mark = used;  // the first look since it was answered
    const bool computes = used - *one.cpu_mark > patience_.between_calls;
    if (!computes && !is_silent) continue;
    const Whereabouts where = whereabouts(rank);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience_.between_calls).count();
    fail({diagnosis::kEndlessLoop,
          "rank " + std::to_string(rank) +
              (computes ? " has computed for " + std::to_string(seconds) + " s without a call: an endless loop?"
                        : " does nothing any more") +
              where.after(),
          rank});
    return;
  }
}

void Session::lost(int rank) {
  at(rank).state = State::Gone;
  const int status = at(rank).link->process().end(std::chrono::seconds(2));
  at(rank).link->read_output();
  fail(incident_of_end(status, whereabouts(rank)));
}

void Session::take_event() {
  const Network::Event event = network_->step();
  switch (event.kind) {
    case Network::Event::Kind::Ended:
      resume(event.rank, event.operation);
      break;
    case Network::Event::Kind::Answer: {
      protocol::Reply answer;
      answer.flag = event.is_complete;
      reply(event.rank, answer, {});
      break;
    }
    case Network::Event::Kind::Objection:
      fail({event.objection.diagnosis, event.objection.text, -1});
      break;
    case Network::Event::Kind::Stuck: {
      const Objection why = network_->explain_stuck();
      fail({why.diagnosis, why.text, -1});
      break;
    }
    case Network::Event::Kind::AllFinished:
      fail({diagnosis::kBreaksProtocol, "the ranks have ended without their results", -1});
      break;
  }
}

void Session::collect_output() {
  for (int rank = 0; rank < world_size(); ++rank) {
    at(rank).link->read_output();
    const std::string& text = at(rank).link->output();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      result_.output += "[rank " + std::to_string(rank) + "] " + text.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }
}

void Session::send_calls() {
  protocol::Call call;
  const Case& posed = question_->posed;
  call.world_size = world_size();
  call.root = posed.root;
  call.type = static_cast<std::uint32_t>(posed.type);
  call.op = static_cast<std::uint32_t>(posed.op);
  call.calls = static_cast<std::uint32_t>(calls_);
  call.buffers = static_cast<std::uint32_t>(buffers_per_call_);
  call.is_traced = observer_ != nullptr;
  call.parameter = posed.parameter;
  std::strncpy(call.function, question_->function.c_str(), protocol::kLongestName - 1);
  for (int rank = 0; rank < world_size(); ++rank) {
    Rank& one = at(rank);
    call.rank = rank;
    one.link->queue(&call, sizeof call);
    for (const BufferContent& buffer : question_->buffers[static_cast<std::size_t>(rank)]) {
      const protocol::BufferHeader header{buffer.bytes.size(), buffer.is_const, 0};
      one.link->queue(&header, sizeof header);
      one.link->queue(buffer.bytes.data(), buffer.bytes.size());
    }
    one.link->flush();
    one.state = State::Running;
    one.handles.clear();
    one.last_call.clear();
    one.cpu_mark.reset();
  }
}

std::vector<std::string> Session::functions() {
  loop_while({State::Starting});
  if (broken_ && result_.incident) early_incident_ = result_.incident;
  return comm::split(registered_, '\0');  // behind the end of the last name stands an empty one
}

RunResult Session::run(const Question& question, RunObserver* observer) {
  question_ = &question;
  functions();  // all have started
  result_ = {};
  result_.incident = early_incident_;
  const auto world = static_cast<std::size_t>(world_size());
  calls_ = static_cast<std::size_t>(question.posed.repetitions);
  buffers_per_call_ = question.buffers.at(0).size() / calls_;
  result_.buffers.resize(world);
  result_.calls.assign(world, std::vector<CallTimes>(calls_));
  network_.emplace(world_size(), question.posed.network);
  observer_ = observer;
  if (!broken_) send_calls();
  loop_while({State::Running, State::Blocked});
  for (int rank = 0; rank < world_size(); ++rank) result_.finish.push_back(network_->clock(rank));
  result_.traffic = network_->traffic();
  for (const Passage& passage : network_->passages()) {
    result_.longest_message = std::max(result_.longest_message, passage.bytes);
  }
  if (!broken_) {
    if (const auto left = network_->left_over()) result_.offences.push_back({left->diagnosis, left->text, -1});
  }
  if (observer_ != nullptr) observer_->ended(*network_);
  collect_output();
  if (broken_) {
    result_.buffers.clear();
    for (Rank& rank : ranks_) rank.link->process().end(std::chrono::milliseconds(0));
  }
  question_ = nullptr;
  observer_ = nullptr;
  return std::move(result_);
}

}  // namespace tutti::labs
