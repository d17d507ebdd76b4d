#include <tutti/tools/labs/show/side.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti::labs::show {
namespace {

int ranks_of(const Play& play) { return std::clamp(play.world_size, 0, kMostPlayRanks); }

bool is_time(double seconds) { return seconds >= 0 && (seconds < 1e12 || seconds == kNever); }

/// Whether the page can show `event` at all.
bool makes_sense(const PlayEvent& event, const Play& play) {
  const int ranks = ranks_of(play);
  if (event.rank < 0 || event.rank >= ranks || event.peer < -1 || event.peer >= ranks) return false;
  const bool is_message = event.kind == PlayEvent::Kind::Send || event.kind == PlayEvent::Kind::Recv;
  if (is_message && event.peer < 0) return false;
  return is_time(event.begin) && event.begin != kNever && is_time(event.end) && event.end >= event.begin;
}

/// At most kMostPlayEvents.
std::vector<const PlayEvent*> usable(const Play& play) {
  std::vector<const PlayEvent*> result;
  for (const PlayEvent& event : play.events) {
    if (makes_sense(event, play)) result.push_back(&event);
  }
  std::stable_sort(result.begin(), result.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
  result.resize(std::min(result.size(), kMostPlayEvents));
  return result;
}

Shown shown(const PlayEvent& event, const Stops& stops, Cells& cells) {
  Shown result{.kind = event.kind,
               .rank = event.rank,
               .peer = event.peer,
               .tag = event.tag,
               .bytes = event.bytes,
               .begin = event.begin,
               .end = event.end,
               .first = stops.at(event.begin),
               .last = stops.at(event.end),
               .text = event.text.substr(0, 200)};
  for (std::size_t i = 0; i < std::min(event.words.size(), kMostMessageCells); ++i) {
    result.carries.push_back(cells.add(event.words[i]));
  }
  return result;
}

/// Makes `change` to what is held, and leaves in it what is new. False if that is nothing.
bool note(Change& change, std::vector<int>& held) {
  if (change.replaces) {
    const bool is_new = held != change.cells;
    held = change.cells;
    return is_new;
  }
  held.resize(std::max(held.size(), change.offset + change.cells.size()), -1);
  const auto place = held.begin() + static_cast<std::ptrdiff_t>(change.offset);
  const auto first = std::mismatch(change.cells.begin(), change.cells.end(), place);
  std::copy(first.first, change.cells.end(), first.second);
  change.offset += static_cast<std::size_t>(first.first - change.cells.begin());
  change.cells.erase(change.cells.begin(), first.first);
  return !change.cells.empty();
}

void add_changes(Side& side, const std::vector<const PlayEvent*>& events, const Stops& stops, Cells& cells) {
  std::vector<const PlayEvent*> by_end;
  for (const PlayEvent* event : events) {
    if (event->end != kNever && !event->after.empty()) by_end.push_back(event);
  }
  std::stable_sort(by_end.begin(), by_end.end(), [](auto* a, auto* b) { return a->end < b->end; });
  std::vector<std::vector<std::vector<int>>> held;
  for (const ShownBuffer& buffer : side.buffers) held.push_back(buffer.initial);
  for (const PlayEvent* event : by_end) {
    for (const PlaySnapshot& snapshot : event->after) {
      const auto buffer = static_cast<std::size_t>(snapshot.buffer);
      if (snapshot.buffer < 0 || buffer >= side.buffers.size() || snapshot.offset >= kMostCells) continue;
      Change change{stops.at(event->end), event->rank, snapshot.buffer, snapshot.offset,
                    side.play->buffers[buffer].is_own};
      const std::size_t count = std::min(snapshot.words.size(), kMostCells - snapshot.offset);
      for (std::size_t i = 0; i < count; ++i) change.cells.push_back(cells.add(snapshot.words[i]));
      if (note(change, held[buffer][static_cast<std::size_t>(event->rank)])) side.changes.push_back(std::move(change));
    }
  }
}

/// How long [0, until) is not covered by any of `busy`.
double idle_seconds(std::vector<std::pair<double, double>> busy, double until) {
  std::sort(busy.begin(), busy.end());
  double idle = 0, covered = 0;
  for (const auto& [begin, end] : busy) {
    if (begin >= until) break;
    idle += std::max(0.0, begin - covered);
    covered = std::max(covered, end);
  }
  return idle + std::max(0.0, until - covered);
}

void add_rank_lines(Side& side) {
  const Play& play = *side.play;
  side.ranks.resize(static_cast<std::size_t>(ranks_of(play)));
  std::vector<std::vector<std::pair<double, double>>> busy(side.ranks.size());
  for (const Shown& event : side.events) {
    if (event.end != kNever) side.end = std::max(side.end, event.end);
    if (event.kind == PlayEvent::Kind::Wait) continue;
    RankLine& line = side.ranks[static_cast<std::size_t>(event.rank)];
    busy[static_cast<std::size_t>(event.rank)].emplace_back(event.begin, event.end);
    if (event.kind == PlayEvent::Kind::Recv && event.end != kNever) ++line.received;
    if (event.kind != PlayEvent::Kind::Send) continue;
    ++line.sent;
    line.bytes_sent += event.bytes;
  }
  for (std::size_t rank = 0; rank < side.ranks.size(); ++rank) {
    const double finish = rank < play.finish.size() && is_time(play.finish[rank]) ? play.finish[rank] : kNever;
    side.ranks[rank].finish = finish;
    if (finish != kNever) side.end = std::max(side.end, finish);
  }
  for (std::size_t rank = 0; rank < side.ranks.size(); ++rank) {
    side.ranks[rank].waiting = idle_seconds(busy[rank], std::min(side.ranks[rank].finish, side.end));
  }
}

/// A barrier has no data. What counts there is who has heard of whom: a message brings all that its sender had heard of
/// when it began.
void add_heard_of(Side& side, Cells& cells) {
  const std::size_t size = side.ranks.size();
  std::vector<std::vector<unsigned>> heard(size, std::vector<unsigned>(size, 0));
  for (std::size_t rank = 0; rank < size; ++rank) heard[rank][rank] = 1;
  const auto cell = [&](const std::vector<unsigned>& of) {
    std::uint64_t word = 0;
    for (std::size_t rank = 0; rank < size; ++rank) {
      // The value is the number of ranks heard of.
      const int world_size = static_cast<int>(size);
      const std::uint64_t one = play_word(static_cast<int>(rank), 0, world_size);
      if (of[rank] > 0) word += one - play_content(one, world_size).value + 1;
    }
    return cells.add(word);
  };
  ShownBuffer buffer{"has heard of", {}};
  for (const auto& of : heard) buffer.initial.push_back({cell(of)});
  struct Moment {
    double time;
    bool is_arrival;
    const Shown* message;
  };
  std::vector<Moment> moments;
  for (const Shown& event : side.events) {
    if (event.kind != PlayEvent::Kind::Send) continue;
    moments.push_back({event.begin, false, &event});
    if (event.end != kNever) moments.push_back({event.end, true, &event});
  }
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return std::pair(a.time, !a.is_arrival) < std::pair(b.time, !b.is_arrival);
  });
  std::map<const Shown*, std::vector<unsigned>> carried;
  const int index = static_cast<int>(side.buffers.size());
  for (const Moment& moment : moments) {
    if (!moment.is_arrival) {
      carried[moment.message] = heard[static_cast<std::size_t>(moment.message->rank)];
      continue;
    }
    auto& at_peer = heard[static_cast<std::size_t>(moment.message->peer)];
    const auto& brought = carried[moment.message];
    for (std::size_t rank = 0; rank < size; ++rank) at_peer[rank] = std::max(at_peer[rank], brought[rank]);
    side.changes.push_back({moment.message->last, moment.message->peer, index, 0, false, {cell(at_peer)}});
  }
  side.buffers.push_back(std::move(buffer));
}

void remark(Side& side, std::size_t usable_events) {
  const Play& play = *side.play;
  if (play.world_size > kMostPlayRanks) {
    side.remarks.push_back("Of " + std::to_string(play.world_size) + " ranks the first " +
                           std::to_string(kMostPlayRanks) + " are shown, and messages among them.");
  }
  const std::size_t left_out = play.events_left_out + play.events.size() - usable_events;
  if (left_out > 0) {
    side.remarks.push_back(
        std::to_string(left_out) +
        " events are not shown: the run is too long, or they do not belong to the ranks shown. Counts "
        "and times are those of what is shown.");
  }
  for (const PlayBuffer& buffer : play.buffers) {
    for (const auto& words : buffer.initial) {
      if (words.size() <= kMostCells) continue;
      side.remarks.push_back("Of each buffer the first " + std::to_string(kMostCells) + " elements are shown.");
      return;
    }
  }
}

/// The parts of `wait` in which its rank neither sends, receives nor adds: a call is blocked while its message passes,
/// too, and that is no waiting.
std::vector<PlayEvent> idle_parts(const PlayEvent& wait, const std::vector<const PlayEvent*>& events) {
  std::vector<PlayEvent> parts;
  PlayEvent rest = wait;
  for (const PlayEvent* event : events) {
    if (event->rank != wait.rank || event->kind == PlayEvent::Kind::Wait || event->end <= rest.begin) continue;
    if (event->begin >= rest.end) break;
    if (event->begin > rest.begin) {
      parts.push_back(rest);
      parts.back().end = event->begin;
    }
    rest.begin = std::min(event->end, rest.end);
  }
  if (rest.begin < rest.end) parts.push_back(rest);
  return parts;
}

void add_events(Side& side, const std::vector<const PlayEvent*>& events, const Stops& stops, Cells& cells) {
  for (const PlayEvent* event : events) {
    if (event->kind != PlayEvent::Kind::Wait) {
      side.events.push_back(shown(*event, stops, cells));
      continue;
    }
    for (const PlayEvent& part : idle_parts(*event, events)) side.events.push_back(shown(part, stops, cells));
  }
  std::stable_sort(side.events.begin(), side.events.end(),
                   [](const Shown& a, const Shown& b) { return a.begin < b.begin; });
}

}  // namespace

Stops::Stops(const std::vector<const Play*>& plays) {
  std::vector<double> all{0};
  for (const Play* play : plays) {
    if (play == nullptr) continue;
    for (const PlayEvent* event : usable(*play)) {
      all.push_back(event->begin);
      if (event->end != kNever) all.push_back(event->end);
    }
    for (const double finish : play->finish) {
      if (is_time(finish) && finish != kNever) all.push_back(finish);
    }
  }
  std::sort(all.begin(), all.end());
  const double as_good_as_equal = 1e-9 * all.back();
  for (const double one : all) {
    if (seconds_.empty() || one > seconds_.back() + as_good_as_equal) seconds_.push_back(one);
  }
}

int Stops::at(double seconds) const {
  if (seconds == kNever) return last() + 1;
  const auto above = std::upper_bound(seconds_.begin(), seconds_.end(), seconds);
  const auto index = static_cast<int>(above - seconds_.begin());
  if (index == 0) return 0;
  if (index > last()) return last();
  const auto i = static_cast<std::size_t>(index);
  return seconds - seconds_[i - 1] <= seconds_[i] - seconds ? index - 1 : index;
}

Side make_side(const Play& play, const Stops& stops, Cells& cells) {
  Side side;
  side.play = &play;
  const std::vector<const PlayEvent*> events = usable(play);
  add_events(side, events, stops, cells);
  bool has_memory = false;
  for (const PlayBuffer& buffer : play.buffers) {
    ShownBuffer named{buffer.name.substr(0, 40), {}};
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_of(play)); ++rank) {
      std::vector<int>& held = named.initial.emplace_back();
      if (rank >= buffer.initial.size()) continue;
      const auto& words = buffer.initial[rank];
      for (std::size_t i = 0; i < std::min(words.size(), kMostCells); ++i) held.push_back(cells.add(words[i]));
      has_memory = has_memory || !words.empty();
    }
    side.buffers.push_back(std::move(named));
  }
  add_changes(side, events, stops, cells);
  add_rank_lines(side);
  if (!has_memory && side.changes.empty()) add_heard_of(side, cells);
  remark(side, events.size());
  return side;
}

}  // namespace tutti::labs::show
