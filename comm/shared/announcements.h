// Announcements: how ranks that share memory announce their operations to each other, and wait for each other.
//
// Each operation is a turn. A rank announces it in a line of its own (transport/shm/segment.h): the fingerprint, so
// that mismatches are errors here as everywhere, and a little payload or the place of a registered buffer. A turn's
// lines and slots are reused kTurns later, when all ranks have finished with them.
//
// A digest of all announcements so far is part of each: operations in which ranks do not read each other (a broadcast
// with two roots) differ in the next one in which they do.
//
// Errors of the waits: as Executor::run. Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/schedule/executor.h>
#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/transport.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tutti::comm {

class Announcements {
 public:
  Announcements(Neighbours& neighbours, Transport& transport, FailureMonitor& monitor);

  int ranks() const { return ranks_; }
  int self() const { return self_; }

  /// Begins the next turn: afterwards this rank's slot may be written. `operation` must live until finish(). What it
  /// publishes is written by non-temporal stores if it `is_long` and most of the others are far (Neighbours::is_far).
  void begin(const Operation& operation, bool is_long) {
    operation_ = &operation;
    streams_ = is_long && most_are_far();
    if (++number_ > kTurns + all_finished_) free_slot();
  }

  /// An operation was done by messages, some of which may never be received where roots differ: the next turn reports
  /// it. Not its count and type, which a rank without elements does not know.
  void note_messages(const Fingerprint& operation);

  /// Where rank `index` shows this turn's contribution of up to kSlotBytes: in its line if it fits there, else in its
  /// slot. A line is to be filled just before announce(): a rank that polls it in between takes it from this CPU's
  /// cache.
  std::byte* shown(int index, std::size_t bytes) const {
    return bytes <= sizeof Turn::payload ? segment_.turn(index, number_).payload.data() : segment_.slot(index, number_);
  }
  /// Publishes the line and the slot; `memory` are places of registered buffers, instead of a payload.
  using Memory = std::array<std::optional<std::uint64_t>, 2>;
  void announce(const Memory& memory);
  void announce() { publish(0); }

  /// Waits for the announcement of a rank and compares it with this one's. Throws Mismatch.
  const Turn& await(int index);
  void await_all();

  /// This rank's operation has failed. To be called before its caller learns of it.
  void give_up() { neighbours_.give_up(); }
  /// After reading a rank's own buffer, not a stage: throws if its call has failed, as it may have left the buffer.
  void check_present(int index) {
    if (neighbours_.gave_up(index)) explain_giving_up(index);
  }

  /// This rank has read what it wanted of this turn's announcements and slots.
  void finish() {
    if (number_ % kTellEvery == 0) tell_finished();
  }

  bool streams() const { return streams_; }
  /// The same of a rank whose announcement has been awaited, and of this one after its own.
  bool streams(int index) const { return (segment_.turn(index, number_).marks & Turn::kStreamed) != 0; }

  /// Polls until `ready`, which rank `index` brings about; gives way and sleeps in between, up to the operation's
  /// deadline.
  template <typename Ready>
  void await_ready(Ready ready, int index) {
    for (int spins = spins_; spins > 0; --spins) {
      if (ready()) return;
      __builtin_ia32_pause();
    }
    wait_until(ready, index);
  }

 private:
  // Published once in so many turns: each time the waiting ranks must fetch the line again.
  static constexpr std::uint64_t kTellEvery = 16;
  static_assert(kTurns % kTellEvery == 0 && kTellEvery < kTurns);

  bool most_are_far() const;
  void free_slot();
  void put_fingerprint(Turn& turn);
  void publish(std::uint8_t marks);
  void tell_finished();
  void wait_until(const std::function<bool()>& ready, int index);
  void compare(const Turn& theirs, int index) const;
  [[noreturn]] void explain_giving_up(int index);

  Neighbours& neighbours_;
  const HostSegment& segment_;
  Transport& transport_;
  FailureMonitor& monitor_;
  const int ranks_;
  const int self_;
  const int spins_;
  std::vector<std::uint64_t> finished_;  // the turn that each rank has finished, as seen last
  bool streams_ = false;                 // what is published in this turn, by non-temporal stores

  const Operation* operation_ = nullptr;
  std::uint64_t number_ = 0;        // of the turn
  std::uint64_t all_finished_ = 0;  // a turn that all ranks are known to have finished
  std::uint64_t history_ = 0;
};

}  // namespace tutti::comm
