// ShmLink: the frames exchanged with one rank of this host on one lane, through a ring in each direction.
//
// Contract: transport.h. Opening needs nothing: the rings are there from the start.
#pragma once

#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/shm/ring.h>
#include <tutti/comm/transport/transport.h>

#include <atomic>
#include <deque>
#include <functional>
#include <span>
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
  bool post_whole(const FrameHeader& header, const void* payload) override;
  bool flush() override;
  const FrameHeader* peek() override;
  std::size_t read(void* into, std::size_t nbytes) override;
  bool has_news() const override {
    return reader_.has_news() || neighbours_.gone(index_) || neighbours_.gone(neighbours_.self());
  }
  bool payload_is_here() override { return reader_.payload_is_here(); }
  std::span<const std::byte> readable() override { return reader_.readable(); }
  void consume(std::size_t nbytes) override;

  /// Index of the peer among the neighbours.
  int index() const { return index_; }

  /// Whether there is something to do: a frame to read, room for what is queued, or a peer that has gone. An unread
  /// frame counts a few times and then not again before the next peek() (see Transport::wait). Any thread.
  bool ready();

 private:
  void check_peer();
  void looked() {
    if (ignored_.load(std::memory_order_relaxed) > 0) ignored_.store(0, std::memory_order_relaxed);
  }

  Neighbours& neighbours_;
  const int peer_;
  const int index_;
  RingWriter writer_;
  RingReader reader_;
  std::deque<Outgoing*> queue_;
  std::atomic<unsigned> ignored_{0};  // how often ready() was true for an unread frame
  const std::function<std::string()> describe_;
};

}  // namespace tutti::comm
