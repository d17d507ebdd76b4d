// BulkEngine, BulkWorker, BulkChannel: a second path between two hosts, for the payloads of long frames.
//
// A TcpLink with a channel sends all headers and short frames over its connection, and the payloads of frames of
// kBulkBytes and more through the channel, which a network adapter drives without the kernel. What a frame is, who may
// send one, and when a peer is lost, the connection alone decides: the two ends of a channel find each other by what
// they tell each other over the authenticated connection (greeting()). Implemented by ucx/ucx_engine.h.
//
// Nothing here blocks. Thread-safety: a channel is used by one thread at a time, like its link; engine and worker by
// any thread. A worker outlives its channels, an engine its workers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tutti::comm {

/// The shortest payload that goes through a channel; shorter ones cost less behind their header.
inline constexpr std::size_t kBulkBytes = 64 * 1024;

/// The longest greeting.
inline constexpr std::size_t kMostGreetingBytes = 4096;

/// One direction each way, payload by payload, in order.
class BulkChannel {
 public:
  virtual ~BulkChannel() = default;

  /// What the other end must know, to be sent over the authenticated connection before anything else.
  virtual std::string greeting() const = 0;

  /// Takes the other end's greeting. Throws Protocol, System.
  virtual void meet(const std::string& greeting) = 0;

  /// Sends what it can of a payload's rest; returns how many bytes at its front need no more of this rank's help. The
  /// same rest without these is offered again until all have left.
  virtual std::size_t send(const void* rest, std::size_t nbytes) = 0;

  /// A payload of `nbytes` comes next. Only when the one before it has been consumed.
  virtual void expect(std::uint64_t nbytes) = 0;

  /// The next bytes of it that have come, at an address for any element unless a part of one was consumed.
  virtual std::span<const std::byte> readable() = 0;
  virtual void consume(std::size_t nbytes) = 0;

  /// What has broken the channel, "" if nothing has. The connection usually ends, too, and knows more.
  virtual std::string failure() const = 0;
};

/// What the channels of one group share.
class BulkWorker {
 public:
  virtual ~BulkWorker() = default;

  virtual std::unique_ptr<BulkChannel> open() = 0;

  /// Moves all channels on.
  virtual void progress() = 0;

  /// Before a thread sleeps: the descriptor that becomes readable when progress() has something to do, -1 if none is of
  /// use now. Shortens `timeout` where progress() is to be called by the clock.
  virtual int prepare_to_sleep(std::chrono::milliseconds& timeout) = 0;

  /// The sleep has ended by its timeout.
  virtual void nothing_came() = 0;
};

/// What a link does with channels.
struct BulkUse {
  std::function<std::unique_ptr<BulkChannel>()> open{};  // null: nothing
  std::size_t from = kBulkBytes;                         // the shortest payload that goes through them
};

class BulkEngine {
 public:
  virtual ~BulkEngine() = default;

  /// `others_moved` is called when one thread has ended what another one has begun, and may sleep for.
  virtual std::shared_ptr<BulkWorker> make_worker(std::function<void()> others_moved) = 0;
};

}  // namespace tutti::comm
