// Transport: moves frames between the ranks of one group. Link: the ordered frames exchanged with one peer on one lane.
//
// Nothing here blocks except Transport::wait. The thread that waits for an operation drives it: post what is to be
// sent, peek at what has come, and call wait() when there is nothing to do. There is no I/O thread.
//
// Lanes: three links per pair of ranks. Collectives are never behind a user's message; and the answers to announced
// messages are never behind one that its receiver does not take yet.
//
// Thread-safety: a link is used by one thread at a time, and collective and point-to-point links by different threads
// at once if need be. service(), wait(), wake() and close() may be called by any thread at any time.
//
// Errors: a link whose connection has ended throws PeerLost from peek() and read() (after everything that had arrived
// was read) and from flush(); undecodable bytes throw Protocol; a refused handshake throws Unauthorized. Texts name the
// peer.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/wire/frame.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

class Neighbours;

/// One frame on its way out. Owned by the poster; it must stay in place until done(), and its payload, too, or be
/// replaced by a copy: a link looks at `payload` anew in each call.
struct Outgoing {
  FrameHeader header;
  const void* payload = nullptr;  // header.nbytes bytes

  std::uint64_t bytes() const { return kFrameHeaderBytes + header.nbytes; }
  bool done() const { return written_ == bytes(); }

  FrameBytes encoded_{};       // for the link
  std::uint64_t written_ = 0;  // for the link: bytes of header and payload that have left
};

class Link {
 public:
  virtual ~Link() = default;

  virtual int peer() const = 0;

  /// Queues a frame behind those posted before, and sends what can be sent at once. Opens the connection if needed.
  virtual void post(Outgoing& frame) = 0;

  /// The same, but what can be sent at once may wait for the next flush(), to leave together with others.
  virtual void queue(Outgoing& frame) { post(frame); }

  /// Sends a short frame at once, without an Outgoing; false (also for no reason): nothing has been done, post() it.
  virtual bool post_whole(const FrameHeader& /*header*/, const void* /*payload*/) { return false; }

  /// Sends what can be sent now; of a long queue it may send a part and leave the rest to the next call, so that
  /// arrived frames are read meanwhile. True when nothing is queued.
  virtual bool flush() = 0;

  /// The header of the frame at the head of the stream once it has arrived, else null. The same frame is returned until
  /// its payload has been read completely.
  virtual const FrameHeader* peek() = 0;

  /// False: peek() would return the same as the last time. May be true for no reason. Any thread.
  virtual bool has_news() const { return true; }

  /// Copies up to `nbytes` of the current frame's payload; returns how many came without blocking. When the payload is
  /// complete the next peek() looks for the next frame. A frame without payload is consumed by read(nullptr, 0).
  virtual std::size_t read(void* into, std::size_t nbytes) = 0;

  /// Whether read() would get all that is left of the current frame's payload. May be false for no reason.
  virtual bool payload_is_here() { return false; }

  /// The part of the current frame's payload that can be read in place, whole elements of it at addresses that are
  /// multiples of their size; empty where read() must be used. consume(n) then stands for a read of its first n bytes,
  /// also whole elements.
  virtual std::span<const std::byte> readable() { return {}; }
  virtual void consume(std::size_t /*nbytes*/) {}
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  virtual Link& collective(int peer) = 0;
  virtual Link& messages(int peer) = 0;  // point-to-point; either side may begin, whatever the other one does
  virtual Link& answers(int peer) = 0;   // to announced messages

  /// Accepts and completes connections that peers have opened. Never blocks. True if a link has become usable by it.
  virtual bool service() = 0;

  /// Blocks until one of `links` may have something to read or room to write, a peer connects (handled as by
  /// service()), wake() is called, or `timeout` passes. May return early, but not again and again: a link with
  /// something to read that no thread has read within a few returns is then awaited for writing only.
  virtual void wait(std::span<Link* const> links, std::chrono::milliseconds timeout) = 0;

  /// Makes every wait() that is running return.
  virtual void wake() = 0;

  /// Ends all connections: peers see the end of the stream at once, and our own links throw PeerLost.
  virtual void close() = 0;

  /// "rank 1 (host a, pid 71, 10.0.0.2:40913)".
  virtual std::string describe(int peer) const = 0;

  /// Rank -> number of its host; empty if not known. Equal on all ranks: algorithms are chosen and built by it.
  virtual std::vector<int> hosts() const { return {}; }

  /// "tcp", "shm", "shm+tcp" (shared memory within a host), "tcp+tls" and "shm+tcp+tls" (encrypted), "tcp+ucx" and
  /// "shm+tcp+ucx" (UCX between hosts), "inproc": what a tuning file must have been measured on.
  virtual std::string_view name() const { return "custom"; }

  /// True if polling without end would keep another rank of this host from running.
  virtual bool oversubscribed() const = 0;

  /// How long a waiting thread should poll (and yield between polls) before it sleeps in wait(). Longer where several
  /// ranks share a CPU: it covers a turn of each, and the yields leave them the CPU.
  virtual std::chrono::microseconds patience() const { return std::chrono::microseconds(oversubscribed() ? 300 : 100); }

  /// The ranks of the whole group, if all of them share memory with this one, else null.
  virtual Neighbours* shared_memory() { return nullptr; }
};

/// One group as one of its ranks sees it. Equal on all ranks but for `rank`.
struct GroupMembers {
  std::string name;
  int rank = 0;                  // this process's, in the group
  std::vector<int> world_ranks;  // of all ranks of the group, in the group's order

  /// Whether it has all ranks of the world in their order, so that each rank has one number only.
  bool is_whole_world(int world_size) const {
    if (static_cast<int>(world_ranks.size()) != world_size) return false;
    for (int i = 0; i < world_size; ++i)
      if (world_ranks[static_cast<std::size_t>(i)] != i) return false;
    return true;
  }
};

/// Makes the transports of a process's groups, of the first one and those split from it. One factory belongs to one
/// rank of one world. Thread-safety: make() may be called by any thread.
class TransportFactory {
 public:
  virtual ~TransportFactory() = default;

  /// Of the whole world: ranks of one host may wait for each other. Of a sub-group: the other members may make theirs
  /// later, or never, which shows when something is sent to them. Throws Timeout, PeerLost, InvalidArgument, System.
  virtual std::unique_ptr<Transport> make(const GroupMembers& members, Deadline deadline) = 0;

  /// The store prefix of a group of this name: apart from an earlier one's, that may have failed.
  virtual std::string key_of(const std::string& group) const { return group; }
};

}  // namespace tutti::comm
