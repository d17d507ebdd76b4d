// BulkEngine, BulkChannel: a second path between two hosts, for the payloads of long frames.
//
// A TcpLink with a channel sends all headers and short frames over its connection, and payloads of kBulkBytes and more
// through the channel, which a network adapter drives without the kernel. What a frame is, which peer may send one, and
// when a peer is lost, the connection alone decides: a payload carries a random tag, which its receiver knows from the
// frame's header, that has come over the authenticated connection. Implemented by ucx/ucx_engine.h.
//
// Nothing here blocks. Thread-safety: a channel is used by one thread at a time, like its link; an engine by any
// thread. The engine outlives its channels.
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

/// To one peer and from it, payload by payload, in order.
class BulkChannel {
 public:
  virtual ~BulkChannel() = default;

  /// Of all payloads that this end sends; not 0.
  virtual std::uint64_t tag() const = 0;

  /// Sends what it can of a payload's rest; returns how many bytes at its front need no more of this rank's help. The
  /// same rest without these is offered again until all have left.
  virtual std::size_t send(const void* rest, std::size_t nbytes) = 0;

  /// A payload of `nbytes` comes next. Only when the one before it has been consumed.
  virtual void expect(std::uint64_t tag, std::uint64_t nbytes) = 0;

  /// The next bytes of it that have come, at an address for any element unless a part of one was consumed.
  virtual std::span<const std::byte> readable() = 0;
  virtual void consume(std::size_t nbytes) = 0;

  /// What has broken the channel, "" if nothing has. The connection usually ends, too, and knows more.
  virtual std::string failure() const = 0;
};

/// What a link does with channels.
struct BulkUse {
  std::function<std::unique_ptr<BulkChannel>()> open{};  // null: nothing
  std::size_t from = 0;                                  // the shortest payload that goes through one
};

/// One rank's end of all its channels, in all groups.
class BulkEngine {
 public:
  virtual ~BulkEngine() = default;

  /// Where the engines of other ranks reach this one.
  virtual std::string address() const = 0;

  /// `wake` is called, by any thread, when a thread has ended what another one began and may sleep for.
  virtual std::unique_ptr<BulkChannel> open(const std::string& peer_address, std::function<void()> wake) = 0;

  /// Moves all channels on.
  virtual void progress() = 0;

  /// Before a thread sleeps: the descriptor that becomes readable when progress() has something to do, -1 if none is of
  /// use now. Shortens `timeout` where progress() is to be called by the clock.
  virtual int prepare_to_sleep(std::chrono::milliseconds& timeout) = 0;

  /// The descriptor has ended the sleep.
  virtual void was_readable() = 0;
};

}  // namespace tutti::comm
