#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/show/play_recorder.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::labs {
namespace {

// Of each sort of events; the page takes the first ones of all of them together.
constexpr std::size_t kMostNotes = 4 * kMostPlayEvents;

std::vector<std::uint64_t> words_of(const Bytes& bytes) {
  std::vector<std::uint64_t> words(std::min(bytes.size() / sizeof(std::uint64_t), kMostPlayWords));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  return words;
}

}  // namespace

PlayRecorder::PlayRecorder(const Question& question) : buffers_per_call_(question.buffers.at(0).size()) {
  const Case& posed = question.posed;
  play_.title = "Your " + question.function;
  play_.world_size = posed.world_size;
  if (question.function == "broadcast" || question.function == "reduce") play_.root = posed.root;
  is_stuck_.resize(question.buffers.size());
  for (std::size_t i = 0; i < buffers_per_call_; ++i) {
    PlayBuffer buffer{question.buffers[0][i].name, false, {}};
    for (const auto& rank : question.buffers) buffer.initial.push_back(words_of(rank.at(i).bytes));
    play_.buffers.push_back(std::move(buffer));
  }
  if (buffers_per_call_ == 0) return;  // a barrier: no memory
  play_.buffers.push_back({"own", true, std::vector<std::vector<std::uint64_t>>(question.buffers.size())});
}

void PlayRecorder::add(PlayEvent event) {
  if (play_.events.size() < kMostNotes) {
    play_.events.push_back(std::move(event));
  } else {
    ++play_.events_left_out;
  }
}

void PlayRecorder::waited(int rank, int peer, double begin, double end, const std::string& call) {
  if (end <= begin) return;
  add({.kind = PlayEvent::Kind::Wait, .rank = rank, .peer = peer, .begin = begin, .end = end, .text = call});
}

void PlayRecorder::combined(int rank, std::size_t bytes, double begin, double end) {
  add({.kind = PlayEvent::Kind::Combine, .rank = rank, .bytes = bytes, .begin = begin, .end = end});
}

void PlayRecorder::holds(int rank, std::size_t buffer, const Bytes& content, double now) {
  if (buffer > buffers_per_call_ || buffer >= play_.buffers.size()) return;
  PlayEvent event{.kind = PlayEvent::Kind::Copy, .rank = rank, .begin = now, .end = now};
  event.after.push_back({static_cast<int>(buffer), 0, words_of(content)});
  add(std::move(event));
}

void PlayRecorder::sent(Network::Operation send, const Bytes& message) {
  if (messages_.size() < kMostPlayEvents) messages_.emplace(send, words_of(message));
}

void PlayRecorder::ended(const Network& network) {
  std::int64_t number = 0;
  for (const Passage& passage : network.passages()) {
    if (static_cast<std::size_t>(number) >= kMostPlayEvents) {
      play_.events_left_out += 2;
      continue;
    }
    PlayEvent event{.kind = PlayEvent::Kind::Send,
                    .rank = passage.from,
                    .peer = passage.to,
                    .tag = passage.tag,
                    .bytes = passage.bytes,
                    .begin = passage.begin,
                    .end = passage.end,
                    .message = number++};
    const bool is_received = passage.receive != Network::kNoOperation;
    if (const auto found = messages_.find(passage.send); found != messages_.end()) event.words = found->second;
    if (!is_received) event.text = "never received";
    play_.events.push_back(event);
    if (!is_received) continue;
    event.words.clear();
    event.kind = PlayEvent::Kind::Recv;
    std::swap(event.rank, event.peer);
    play_.events.push_back(std::move(event));
  }
  for (const Network::Wait& wait : network.waits()) {
    const std::string call = network.text_of(wait.operation);
    play_.deadlock.push_back({wait.rank, wait.peer, call});
    is_stuck_[static_cast<std::size_t>(wait.rank)] = true;
    play_.events.push_back({.kind = PlayEvent::Kind::Wait,
                            .rank = wait.rank,
                            .peer = wait.peer,
                            .begin = network.clock(wait.rank),
                            .end = kNever,
                            .text = call});
  }
}

Play PlayRecorder::take(const RunResult& result) {
  for (std::size_t rank = 0; rank < result.finish.size(); ++rank) {
    // After an incident the clocks are where it was noticed; only calls that have returned have an end.
    const bool has_returned =
        !result.incident || (!is_stuck_[rank] && !result.calls[rank].empty() && result.calls[rank].back().end > 0);
    play_.finish.push_back(has_returned ? result.finish[rank] : kNever);
  }
  if (result.incident) {
    const std::string& found = result.incident->diagnosis;
    const bool is_deadlock = found == diagnosis::kDeadlock || found == diagnosis::kTagMismatch;
    play_.outcome = is_deadlock ? Play::Outcome::Deadlock : Play::Outcome::Failed;
    play_.explanation = result.incident->text;
  } else if (const Incident* offence = result.first_wrong()) {
    play_.outcome = Play::Outcome::Wrong;
    play_.explanation = offence->text;
  }
  if (play_.outcome != Play::Outcome::Deadlock) play_.deadlock.clear();
  std::stable_sort(play_.events.begin(), play_.events.end(),
                   [](const PlayEvent& a, const PlayEvent& b) { return a.begin < b.begin; });
  return std::move(play_);
}

}  // namespace tutti::labs
