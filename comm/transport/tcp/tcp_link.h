// TcpLink: a Link over one TCP connection, opened on first use. Contract: transport.h.
//
// One side connects when it first posts or peeks, and the other one waits until the listener hands it the accepted
// socket; or either side connects, when it first posts, and of two that do so at once one yields.
// Reads go through a small buffer so that a header and a short payload cost one system call; a long payload goes
// straight into the caller's memory, but for the part that came with its header. Posted frames leave at once, but short
// frames of a rank that runs ahead share packets (packet_sharing.h). With a channel (bulk.h) long payloads leave
// through that, in their place in the stream.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/bulk.h>
#include <tutti/comm/transport/tcp/dialer.h>
#include <tutti/comm/transport/tcp/packet_sharing.h>
#include <tutti/comm/transport/transport.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace tutti::comm {

class TcpLink final : public Link {
 public:
  enum class Opener { This, Peer, Either };

  /// `connect` opens the connection, unless the peer alone does; `describe` names the peer in errors; `runs_ahead` is
  /// of all links that one thread uses, and outlives them. `bulk.open` is called at most once.
  TcpLink(int peer, Opener opener, std::function<std::unique_ptr<Dialer>()> connect,
          std::function<std::string()> describe, RunsAhead& runs_ahead, BulkUse bulk = {});

  int peer() const override { return peer_; }
  void post(Outgoing& frame) override;
  void queue(Outgoing& frame) override;
  bool flush() override;
  const FrameHeader* peek() override;
  std::size_t read(void* into, std::size_t nbytes) override;
  bool payload_is_here() override { return !reads_bulk() && buffered() >= payload_left_; }
  std::span<const std::byte> readable() override;
  void consume(std::size_t nbytes) override;

  /// Whether a connection from the peer may be let in. Not while this side opens one itself, unless `peer_comes_first`:
  /// then this side gives up its own, and waits for adopt(). True for a second connection: adopt() refuses it. Any
  /// thread.
  bool admit(bool peer_comes_first);

  /// Takes an authenticated connection from the thread that accepted it; false if the link has had one already.
  bool adopt(ByteStream socket);

  /// Ends the connection; any thread.
  void shutdown();

  struct Interest {
    int fd = -1;
    short events = 0;
    bool hidden = false;  // there may be bytes to read that have left the socket already: do not sleep
  };
  /// What wait() should poll for; fd -1 while there is nothing. Any thread.
  Interest interest() const;

  /// How this rank tries to reach the peer, while it does: "connecting for 7.1 s: no answer from 10.0.0.2:4000"; on the
  /// accepting side "no connection from it for 7.1 s". "" for less than a second, and afterwards. Any thread.
  std::string trouble() const;

  /// wait() has returned because there is something to read. After a few such returns without a read, interest() leaves
  /// reading out, lest wait() return for ever. Any thread.
  void reported_readable() { ignored_reports_.fetch_add(1, std::memory_order_relaxed); }

 private:
  bool open();  // true if connected; otherwise does what it can without blocking
  bool is_dialling();
  bool has_handed_over();
  bool advance_connect();
  void set_held_back(bool held);
  void note_sent(std::uint64_t bytes);                              // from the queue's front
  std::size_t write(std::size_t at_most, asio::error_code& error);  // the queue's front
  BulkChannel& channel();
  bool sends_bulk() const;  // the payload of the queue's front is next
  bool advance_bulk();
  bool reads_bulk() const { return current_ && current_->bulk_tag != 0; }
  std::size_t read_bulk(void* into, std::size_t nbytes);
  void check_bulk();   // that the payload that has not come still may
  bool find_header();  // true if the buffer holds one
  void take_header();  // from the buffer
  void fill();         // reads what has come into the buffer
  template <typename Parts>
  std::size_t receive(const Parts& parts);
  void acknowledge(bool more_came);
  void end_stream(const std::string& reason);
  void end_stream(const asio::error_code& error);
  void update_interest();
  void looked() {
    if (ignored_reports_.load(std::memory_order_relaxed) > 0) ignored_reports_.store(0, std::memory_order_relaxed);
  }
  [[noreturn]] void lost(const std::string& why);
  std::size_t buffered() const { return end_ - begin_; }

  const int peer_;
  const Opener opener_;
  const std::function<std::unique_ptr<Dialer>()> connect_;
  const std::function<std::string()> describe_;
  const BulkUse bulk_;

  std::unique_ptr<Dialer> dialer_;
  std::optional<ByteStream> socket_;
  std::deque<Outgoing*> queue_;
  RunsAhead& runs_ahead_;
  PacketSharing sharing_;
  bool held_back_ = false;       // the kernel holds queued frames back, as sharing_ says
  bool acknowledges_ = false;    // what it reads, since the peer may hold back later frames
  bool unacknowledged_ = false;  // something it has read
  bool is_near_ = false;         // the peer, on this host
  bool waits_for_peer_ = false;
  std::unique_ptr<BulkChannel> channel_;
  std::optional<std::chrono::steady_clock::time_point> bulk_broken_since_;

  static constexpr std::size_t kReadAheadBytes = 1024;  // behind a long payload: the next header, and maybe its payload

  struct alignas(64) ReadBuffer : std::array<std::byte, 8 * 1024> {};  // the kernel copies faster to aligned
  std::unique_ptr<ReadBuffer> buffer_;                                 // with the connection: most peers have none
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<FrameHeader> current_;
  std::uint64_t payload_left_ = 0;
  bool end_of_stream_ = false;
  std::string end_reason_;
  ErrorCode end_code_ = ErrorCode::PeerLost;

  mutable std::mutex handover_mutex_;  // guards the next five and dialer_'s place
  std::optional<ByteStream> handed_over_;
  bool adopted_ = false;
  enum class Chosen { Nobody, ThisTries, This, Peer };
  Chosen chosen_ = Chosen::Nobody;                                     // where either side may open it
  int fd_ = -1;                                                        // of socket_ or, before that, of dialer_
  std::optional<std::chrono::steady_clock::time_point> wanted_since_;  // the connection, which is not there yet
  std::atomic<bool> has_handed_over_{false};
  std::atomic<bool> shut_down_{false};
  std::atomic<std::int64_t> interest_{-0x10000};  // Interest, packed: fd in the upper bits, the rest in the lower 16
  std::atomic<unsigned> ignored_reports_{0};
};

}  // namespace tutti::comm
