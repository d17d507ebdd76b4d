// Play: one run of a collective on a virtual network, as the page of `tutti lab show` plays it: who sent what to whom,
// who added up, who waited, and what lay in each rank's memory afterwards.
//
// A traced run sums 64-bit words that hold two numbers at once (play_word): a small value that people can read, and how
// often each rank's contribution is in it. A sum of words is both sums side by side, so that the page knows who has
// contributed to an element, whatever a submission does with it. A traced run is therefore made with std::uint64_t and
// a sum; a rank's input element `index` is play_word(rank, index, world_size).
//
// What the run's referee fills in:
//  - each message is a Send, while it is on the wire, and a Recv at the other end, with one number for both;
//  - whatever blocks a rank is a Wait (from the call until the message passes); one that never ends stays at kNever;
//  - after what changed a rank's memory, `after` says what is there now. A buffer that the run was given (data, input,
//    output) may be told whole or in part. Memory of the submission's own (temporary vectors) is the last buffer,
//    "own", and each telling replaces it as a whole. Changes that the submission made by itself between two calls are a
//    Copy, found by comparing.
//
// Values; nothing here throws but what allocation does. Words, texts and numbers come from a submission and are not
// trusted: the page escapes and bounds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tutti::labs {

/// A run larger than this is cut, and the page says so: it has no use for more than people can follow. Who fills a Play
/// counts what he leaves out (Play::events_left_out).
inline constexpr int kMostPlayRanks = 16;
inline constexpr std::size_t kMostPlayEvents = 4000;
inline constexpr std::size_t kMostPlayWords = 64;  // of one buffer or message: the first ones

/// Seconds of something that never came to an end.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a buffer holds from element `offset` on.
struct PlaySnapshot {
  int buffer = 0;  // index into Play::buffers
  std::size_t offset = 0;
  std::vector<std::uint64_t> words{};
};

struct PlayEvent {
  enum class Kind : std::uint8_t {
    Send,     // a message of `rank` is on its way to `peer`; `words` is what it carries
    Recv,     // ... and arrives at `rank` from `peer`: the same times, or a moment within them
    Combine,  // `rank` applies the operator
    Copy,     // `rank` moves elements within its memory
    Wait,     // `rank` is blocked until `peer` (-1: anybody) does its part; `text` says in which call
  };

  Kind kind = Kind::Send;
  int rank = 0;
  int peer = -1;
  int tag = 0;
  std::size_t bytes = 0;
  double begin = 0;                    // seconds of virtual time
  double end = 0;                      // or kNever
  std::int64_t message = -1;           // Send and Recv: the same number at both ends, from 0
  std::vector<std::uint64_t> words{};  // Send: the first kMostPlayWords of the message
  std::vector<PlaySnapshot> after{};   // what `rank` holds at `end`; empty: as before
  std::string text{};                  // Wait: "recv from 0, tag 3"; else a remark, or empty
};

/// A buffer that every rank has; `initial[r]` is what rank r's held at the beginning (empty where it has none).
struct PlayBuffer {
  std::string name{};   // "data", "input", "output", "own"
  bool is_own = false;  // the submission's own memory: each snapshot replaces it
  std::vector<std::vector<std::uint64_t>> initial{};
};

/// Of a deadlock: `rank` waits for `peer`.
struct PlayWait {
  int rank = 0;
  int peer = -1;
  std::string text{};  // the call: "send to 1, tag 0 (800,000 bytes: waits until it is received)"
};

struct Play {
  enum class Outcome : std::uint8_t { Right, Wrong, Deadlock, Failed };

  std::string title{};  // "Your all_reduce", "ring"
  int world_size = 0;
  int root = -1;  // -1: the operation has none
  std::vector<PlayBuffer> buffers{};
  std::vector<PlayEvent> events{};  // in the order of their beginnings
  std::vector<double> finish{};     // per rank: when it returned, or kNever
  double bound_seconds = 0;         // what no algorithm can beat; 0: not known
  std::size_t events_left_out = 0;
  Outcome outcome = Outcome::Right;
  std::string explanation{};         // a sentence, where the outcome is another than Right
  std::vector<PlayWait> deadlock{};  // each rank's wait; those that form the cycle first, in its order
};

/// What element `index` of rank `rank`'s input is in a traced run: its value is 10 (rank + 1) + index mod 10.
std::uint64_t play_word(int rank, std::size_t index, int world_size);

/// What a word holds.
struct PlayContent {
  std::uint64_t value = 0;
  std::vector<unsigned> times{};  // per rank: how often its contribution is in it; empty beyond kMostPlayRanks
};
PlayContent play_content(std::uint64_t word, int world_size);

}  // namespace tutti::labs
