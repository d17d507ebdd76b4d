#include <tutti/comm/algorithms/simulator.h>
#include <tutti/tools/labs/library_call.h>
#include <tutti/tools/labs/show/library_play.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace tutti::labs {
namespace {

using comm::BufferId;
using comm::Slice;
using comm::Step;

using Words = std::vector<std::uint64_t>;

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// Performs the schedules of all ranks step by step, as the simulator completes them, on real values.
class Recorder {
 public:
  Recorder(const show::LibraryRun& run, const Case& posed) : run_(run), posed_(posed) {
    play_.title = run.algorithm;
    play_.world_size = posed.world_size;
    play_.bound_seconds = run.bound_seconds;
    memory_.resize(run.schedules.size());
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) lay_out(rank);
    for (const show::NamedSlice& named : run.buffers) play_.buffers.push_back(initial(named));
    play_.buffers.push_back({"own", true, std::vector<Words>(memory_.size())});
  }

  Play record() {
    const comm::NetworkModel network = network_model(posed_.network);
    const comm::Simulation simulation = comm::simulate(
        run_.schedules, kWord, network, [this](const comm::Transfer& transfer) { pass(transfer); },
        [this](int rank, std::uint32_t step, double seconds) { complete(rank, step, seconds); });
    play_.finish = simulation.finishes;
    add_waits();
    std::stable_sort(play_.events.begin(), play_.events.end(),
                     [](const PlayEvent& a, const PlayEvent& b) { return a.begin < b.begin; });
    return std::move(play_);
  }

 private:
  struct Memory {
    Words input, output, scratch;
    Words& of(BufferId buffer) {
      return buffer == BufferId::Input ? input : buffer == BufferId::Output ? output : scratch;
    }
  };
  /// A message between its Send, whose step completes first, and the completion of what receives it.
  struct Message {
    std::int64_t number = 0;
    double begin = 0, end = 0;
    std::size_t bytes = 0;
    Words words{};
  };

  void lay_out(std::size_t rank) {
    Memory& memory = memory_[rank];
    for (const Step& step : run_.schedules[rank].steps) {
      for (const Slice& slice : {step.source, step.target}) {
        Words& words = memory.of(slice.buffer);
        words.resize(std::max(words.size(), slice.offset + slice.count));
      }
    }
    for (const show::NamedSlice& named : run_.buffers) {
      if (!exists(named, rank)) continue;
      Words& words = memory.of(named.slice.buffer);
      words.resize(std::max(words.size(), named.slice.offset + named.slice.count));
      if (!named.is_filled) continue;
      for (std::size_t i = 0; i < named.slice.count; ++i) {
        words[named.slice.offset + i] = play_word(static_cast<int>(rank), i, posed_.world_size);
      }
    }
  }

  bool exists(const show::NamedSlice& named, std::size_t rank) const {
    return !named.at_root_only || static_cast<int>(rank) == posed_.root;
  }

  PlayBuffer initial(const show::NamedSlice& named) {
    PlayBuffer buffer{named.name, false, {}};
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      buffer.initial.push_back(exists(named, rank) ? shown(rank, named.slice) : Words{});
    }
    return buffer;
  }

  Words shown(std::size_t rank, const Slice& slice) {
    const Words& words = memory_[rank].of(slice.buffer);
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(slice.offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(std::min(slice.count, kMostPlayWords))};
  }

  void pass(const comm::Transfer& transfer) {
    lanes_[{transfer.from, transfer.to}].push_back({messages_++, transfer.start, transfer.end, transfer.bytes, {}});
  }

  void complete(int rank, std::uint32_t index, double now) {
    const auto r = static_cast<std::size_t>(rank);
    const Step& step = run_.schedules[r].steps[index];
    switch (step.kind) {
      case Step::Kind::Send:
        return send(rank, step);
      case Step::Kind::Copy: {
        const Words words = whole(r, step.source);
        if (words == whole(r, step.target)) return;  // onto itself
        put(r, step.target, words, false);
        return add({.kind = PlayEvent::Kind::Copy, .rank = rank, .begin = now, .end = now}, step.target);
      }
      case Step::Kind::Reduce:
        put(r, step.target, whole(r, step.source), true);
        return add(combination(rank, step.target, now), step.target);
      default:
        return receive(rank, step, now);
    }
  }

  void send(int rank, const Step& step) {
    Message& message = under_way_[{rank, step.peer}].emplace_back(take(lanes_[{rank, step.peer}]));
    message.words = whole(static_cast<std::size_t>(rank), step.source);
    PlayEvent event = event_of(PlayEvent::Kind::Send, rank, step.peer, message);
    event.words = message.words;
    event.words.resize(std::min(event.words.size(), kMostPlayWords));
    play_.events.push_back(std::move(event));
  }

  void receive(int rank, const Step& step, double now) {
    const Message message = take(under_way_[{step.peer, rank}]);
    const bool combines = step.kind == Step::Kind::RecvReduce;
    put(static_cast<std::size_t>(rank), step.target, message.words, combines);
    PlayEvent event = event_of(PlayEvent::Kind::Recv, rank, step.peer, message);
    if (!combines || now == message.end) return add(std::move(event), step.target);
    play_.events.push_back(std::move(event));
    add(combination(rank, step.target, now), step.target);
  }

  PlayEvent combination(int rank, const Slice& target, double now) const {
    const std::size_t bytes = target.count * kWord;
    const double seconds = static_cast<double>(bytes) * posed_.network.gamma;
    return {.kind = PlayEvent::Kind::Combine, .rank = rank, .bytes = bytes, .begin = now - seconds, .end = now};
  }

  static PlayEvent event_of(PlayEvent::Kind kind, int rank, int peer, const Message& message) {
    return {.kind = kind,
            .rank = rank,
            .peer = peer,
            .bytes = message.bytes,
            .begin = message.begin,
            .end = message.end,
            .message = message.number};
  }

  static Message take(std::deque<Message>& queue) {
    Message first = std::move(queue.front());
    queue.pop_front();
    return first;
  }

  Words whole(std::size_t rank, const Slice& slice) {
    const Words& words = memory_[rank].of(slice.buffer);
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(slice.offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(slice.count)};
  }

  void put(std::size_t rank, const Slice& target, const Words& words, bool combines) {
    Words& memory = memory_[rank].of(target.buffer);
    for (std::size_t i = 0; i < target.count; ++i) {
      std::uint64_t& word = memory[target.offset + i];
      word = combines ? word + words[i] : words[i];
    }
  }

  /// Appends `event`, after which `target` has been written.
  void add(PlayEvent event, const Slice& target) {
    const auto rank = static_cast<std::size_t>(event.rank);
    if (target.buffer == BufferId::Scratch) {
      const int own = static_cast<int>(play_.buffers.size()) - 1;
      event.after.push_back({own, 0, shown(rank, {BufferId::Scratch, 0, memory_[rank].scratch.size()})});
    }
    for (std::size_t i = 0; i < run_.buffers.size(); ++i) {
      const Slice& named = run_.buffers[i].slice;
      if (!exists(run_.buffers[i], rank) || named.buffer != target.buffer) continue;
      const std::size_t begin = std::max(named.offset, target.offset);
      const std::size_t end =
          std::min({named.offset + named.count, target.offset + target.count, named.offset + kMostPlayWords});
      if (begin >= end) continue;
      event.after.push_back(
          {static_cast<int>(i), begin - named.offset, shown(rank, {named.buffer, begin, end - begin})});
    }
    play_.events.push_back(std::move(event));
  }

  /// A rank that does nothing waits for whoever its next message is from or for.
  void add_waits() {
    std::vector<PlayEvent> waits;
    for (int rank = 0; rank < play_.world_size; ++rank) {
      std::vector<const PlayEvent*> own;
      for (const PlayEvent& event : play_.events) {
        if (event.rank == rank) own.push_back(&event);
      }
      std::stable_sort(own.begin(), own.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
      double busy_until = 0;
      for (const PlayEvent* event : own) {
        if (event->begin > busy_until && event->peer >= 0) {
          waits.push_back({.kind = PlayEvent::Kind::Wait,
                           .rank = rank,
                           .peer = event->peer,
                           .begin = busy_until,
                           .end = event->begin});
        }
        busy_until = std::max(busy_until, event->end);
      }
    }
    play_.events.insert(play_.events.end(), waits.begin(), waits.end());
  }

  const show::LibraryRun& run_;
  const Case& posed_;
  Play play_;
  std::vector<Memory> memory_;
  std::int64_t messages_ = 0;
  std::map<std::pair<int, int>, std::deque<Message>> lanes_;      // passed; the sender's step is about to complete
  std::map<std::pair<int, int>, std::deque<Message>> under_way_;  // ... is complete, the receiver's is not
};

}  // namespace

Play library_play(const std::string& function, const Case& posed, const std::string& algorithm) {
  if (posed.world_size < 1 || posed.world_size > kMostPlayRanks) {
    throw std::invalid_argument("a run of " + std::to_string(posed.world_size) + " ranks cannot be shown: 1 to " +
                                std::to_string(kMostPlayRanks) + " can");
  }
  const show::LibraryRun run = show::library_run(function, posed, algorithm);
  Play play = Recorder(run, posed).record();
  if (function == "broadcast" || function == "reduce") play.root = posed.root;
  return play;
}

bool library_can_play(const std::string& function) {
  return operation_of(function) || function == "shift" || function == "all_reduce_many";
}

}  // namespace tutti::labs
