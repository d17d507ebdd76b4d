// What a rank of a submission and the referee say to each other over the rank's socket: fixed headers, each followed by
// `payload_bytes` bytes. Both ends are built from this file on one machine, so that structs travel as they are.
//
// The rank's end is not trusted: whatever runs in its process can write to the socket. The referee checks every header
// (session_requests.cc) and gives nothing away but what a rank is to know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::labs::protocol {

inline constexpr int kSocket = 3;  // the descriptor that a rank is started with
inline constexpr std::uint32_t kMagic = 0x7464'6162;
inline constexpr std::size_t kLongestName = 32;

/// What stands in memory that is not to be read yet: not-a-number for float and double, told apart by the lower half.
inline constexpr std::uint32_t kPoison = 0x7FFC'0000;
inline constexpr std::uint32_t kPoisonPending = kPoison | 0xB1B1;  // an irecv is under way
inline constexpr std::uint32_t kPoisonOutput = kPoison | 0x0ED0;   // output that nobody has written
inline constexpr unsigned char kHeapFill = 0x7F;                   // what malloc's memory holds at first

enum class Verb : std::uint32_t {
  Ready = 1,     // once, at the start; payload: names of the registered functions, each with its 0
  Send,          // blocks; payload: the message
  Receive,       // blocks
  StartSend,     // payload: the message
  StartReceive,  //
  Wait,          // blocks, for `handle`
  Test,          // answered at once
  Now,           // answered at once
  Forget,        // `handle` was destroyed without a wait
  Changed,       // the memory of `handle` was changed before wait
  Begin,         // call number `handle` begins
  End,           // ... has returned
  Done,          // all calls have; payload: the buffers in their order
  Threw,         // payload: the exception's text
  Fault,         // a signal; payload: a FaultReport
  Refused,       // the sandbox refused a system call; payload: a RefusalReport
  Snapshot,      // traced runs: buffer number `handle` of the call now holds the payload
  Combined,      // traced runs: the operator was applied to `bytes` bytes
};

/// From a rank.
struct Request {
  std::uint32_t magic = kMagic;
  Verb verb = Verb::Ready;
  std::int32_t peer = 0;
  std::int32_t tag = 0;
  std::uint64_t handle = 0;
  std::uint64_t bytes = 0;  // of the message that is sent or awaited
  std::uint32_t element_bytes = 1;
  std::uint32_t reserved = 0;
  std::uint64_t combined_bytes = 0;  // given to the operator since the request before
  std::uint64_t payload_bytes = 0;
};

/// To a rank: the answer to what blocks or asks.
struct Reply {
  std::uint32_t magic = kMagic;
  std::int32_t source = -1;
  std::uint32_t flag = 0;  // Test: whether it is complete
  std::uint32_t reserved = 0;
  double seconds = 0;
  std::uint64_t payload_bytes = 0;
};

/// To a rank that is ready, or done: the next calls. Followed by a BufferHeader and contents for each buffer of each
/// call, in their order.
struct Call {
  std::uint32_t magic = kMagic;
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  std::int32_t root = 0;
  std::uint32_t type = 0;  // ElementType
  std::uint32_t op = 0;    // Combination
  std::uint32_t calls = 1;
  std::uint32_t buffers = 0;  // of each call
  std::uint32_t is_traced = 0;
  std::uint32_t reserved = 0;
  std::uint64_t parameter = 0;
  char function[kLongestName] = {};
};

struct BufferHeader {
  std::uint64_t bytes = 0;
  std::uint32_t is_const = 0;  // a write is a fault
  std::uint32_t reserved = 0;
};

struct FaultReport {
  std::int32_t signal = 0;
  std::int32_t call = -1;    // number of the call
  std::int32_t buffer = -1;  // the buffer of that call in or behind which the address lies; -1: none
  std::uint32_t is_write = 0;
  std::uint32_t is_stack = 0;  // near the stack pointer: the stack is full
  std::uint32_t reserved = 0;
  std::int64_t offset = 0;  // of the address from the buffer's beginning, in bytes
  std::uint64_t address = 0;
};

struct RefusalReport {
  std::int64_t number = 0;  // of the system call
  std::uint64_t arguments[3] = {};
  char path[104] = {};  // what looks like the file's name, where there is one
};

}  // namespace tutti::labs::protocol
