// ShmLink: the frames exchanged with one rank of this host on one lane, through a ring in each direction.
//
// Contract: transport.h. Opening needs nothing: the rings are there from the start. ready() may be called by any
// thread, while another uses the link: it looks only at the rings, and at what the link has noted for it.
#pragma once

#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/shm/ring.h>
#include <tutti/comm/transport/transport.h>

#include <atomic>
#include <deque>
#include <functional>
#include <string>

namespace tutti::comm {

class ShmLink final : public Link {
 public:
  struct Rings {
    RingMemory out;
    RingMemory in;
  };

  ShmLink(Neighbours& neighbours, int peer, Rings rings, std::uint64_t group, std::function<std::string()> describe);

  int peer() const override { return peer_; }
  void post(Outgoing& frame) override;
  bool flush() override;
  const FrameHeader* peek() override;
  std::size_t read(void* into, std::size_t nbytes) override;
  std::span<const std::byte> readable() override { return reader_.readable(); }
  void consume(std::size_t nbytes) override;

  /// Index of the peer among the neighbours.
  int index() const { return index_; }

  /// Whether there is something to do: a frame to read, room for what is queued, or a peer that has gone. When it has
  /// said so a few times for other reasons than room, and nobody has looked, nobody wants to know: then it says so no
  /// more.
  bool ready();

 private:
  void check_peer();
  void note_reader();  // after each use of reader_
  void note_writer();  // after each use of writer_ and queue_
  void looked() {
    if (ignored_.load(std::memory_order_relaxed) > 0) ignored_.store(0, std::memory_order_relaxed);
  }

  Neighbours& neighbours_;
  const int peer_;
  const int index_;
  const Rings rings_;
  RingWriter writer_;
  RingReader reader_;
  std::deque<Outgoing*> queue_;
  const std::function<std::string()> describe_;

  std::atomic<std::uint64_t> cursor_{0};          // of reader_
  std::atomic<std::uint64_t> write_position_{0};  // of writer_
  std::atomic<bool> has_queue_{false};
  std::atomic<unsigned> ignored_{0};
};

}  // namespace tutti::comm
