// PointToPoint: tagged messages between two ranks, on lanes of their own.
//
// Up to kEagerBytes a message travels with its header and is kept by the receiver until a receive matches it; a longer
// one is announced, and sent when the receiver has a buffer for it, so it is never copied.
//
// Memory: a short message that cannot leave at once is copied, and its send is complete; up to kUnsentBytes of them per
// receiver. Beyond that send() waits, with its deadline, and an isend stays incomplete, its payload the caller's, until
// the message has left. The receiver keeps up to kUnexpectedBytes per sender and then reads no more from it; a receive
// of a message behind these waits until some of them are received. Messages to this rank itself are always copied.
//
// Progress: a waiting thread drives all messages of this rank. While unfinished isend/irecv exist and no thread waits,
// a helper thread, asleep in the kernel, does. Thread-safety: all methods may be called from any thread.
#pragma once

#include <tutti/comm/base/completion.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/transport/transport.h>
#include <tutti/comm/work.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::comm {

inline constexpr std::size_t kEagerBytes = 64 * 1024;
inline constexpr std::size_t kUnexpectedBytes = 64 * 1024 * 1024;  // per sender; beyond it that sender has to wait
inline constexpr std::size_t kUnsentBytes = 4 * 1024 * 1024;       // per receiver; beyond it sends wait
inline constexpr std::size_t kMessageBytes = 256;                  // what a message counts beside its payload

struct PointToPointOptions {
  std::uint64_t group = 0;  // identity_hash(group name)
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds report_after{0};
  /// Turns an error of one message into the group's failure; calls fail() in turn.
  std::function<void(const Error& error, const Fingerprint& operation)> on_failure;
};

class PointToPoint {
 public:
  PointToPoint(Transport& transport, FailureMonitor& monitor, PointToPointOptions options);
  ~PointToPoint();  // unfinished messages fail with Aborted
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  Work isend(const ConstBuffer& data, int destination, int tag);
  Work irecv(const Buffer& data, int source, int tag);  // source -1: from any rank

  /// The same, driven by the calling thread alone: no helper. recv returns the sender's rank. `caller` is not asked for
  /// its deadline by a call that need not wait.
  void send(const ConstBuffer& data, int destination, int tag, Caller& caller);
  int recv(const Buffer& data, int source, int tag, Caller& caller);

  /// Both at once, driven by the caller; returns the sender's rank when both are complete.
  int sendrecv(const ConstBuffer& outgoing, int destination, int send_tag, const Buffer& incoming, int source,
               int recv_tag, Caller& caller);

  /// Before the group is left: blocks until all buffered messages have left; `operation` is what the caller is doing
  /// meanwhile.
  void drain(const Fingerprint& operation);

  /// All unfinished and future messages fail with `error`.
  void fail(std::exception_ptr error);

 private:
  struct Request;
  using RequestPtr = std::shared_ptr<Request>;
  class Hold;

  /// A message that came before a receive for it; its payload, if eager, may still be arriving.
  struct Unexpected {
    int peer = -1;
    FrameHeader header;
    std::vector<std::byte> payload;
    bool complete = false;
  };

  /// The frame that is being read from one peer.
  struct Arrival {
    RequestPtr request;  // where it goes; null: to `unexpected`
    Unexpected* unexpected = nullptr;
    std::byte* target = nullptr;
    std::size_t nbytes = 0;
    std::size_t arrived = 0;
    bool active = false;
  };

  struct Posted {
    Outgoing frame;
    Link* link = nullptr;
    std::vector<std::byte> owned;  // the payload, if the sender has gone on already
    RequestPtr request;            // to finish when the frame has left; may be null
    std::size_t unsent_bytes = 0;  // what it counts in unsent_bytes_
  };

  // The fast path of short messages: one that leaves, or has come, during its call needs no request. A receive goes
  // this way only while nothing else is under way, so that messages are matched in the order of the calls; any frame
  // but exactly the message it wants stays unread, for the path with requests. False: nothing has been done.
  bool send_at_once(const ConstBuffer& data, int destination, int tag);
  bool recv_at_once(const Buffer& data, int source, int tag);
  enum class AtOnce { Taken, NotYet, Never };
  AtOnce take_at_once(const Buffer& data, int source, int tag);

  RequestPtr start_send(const ConstBuffer& data, int destination, int tag, Deadline deadline);
  RequestPtr start_recv(const Buffer& data, int source, int tag, Deadline deadline);
  using Predicate = std::function<bool()>;  // called with mutex_ held
  void drive_until(const Predicate& done, const Fingerprint& operation, Deadline deadline,
                   const std::vector<int>& awaited);
  void drive(Request& request);
  void leave_driving();
  void help_oldest(std::unique_lock<std::mutex>& lock);
  bool has_work() const { return !failure_ && (!pending_.empty() || !outbox_.empty()); }  // mutex_ held
  void ensure_helper();
  void help();

  // All of these run with mutex_ held.
  bool progress();
  bool progress_messages(int peer);
  bool progress_sends(int peer);
  void notice_loss(int peer);
  bool begin_arrival(int peer, const FrameHeader& header);  // false: no room for it now
  void post(Link& link, const FrameHeader& header, const void* payload, RequestPtr request);
  RequestPtr take_posted(int peer, const Fingerprint& sent);
  Fingerprint fingerprint(OpKind op, const ConstBuffer& data, int tag) const;
  /// Whether a receive and a send are two sides of one message.
  static bool same_message(const Fingerprint& ours, const Fingerprint& sent);
  void check_same(const Request& receive, int peer, const Fingerprint& sent) const;
  void claim(const Unexpected& message, const RequestPtr& receive);
  void clear_to_send(int peer, const FrameHeader& announced, const RequestPtr& receive);

  void finish(Request& request, int source,
              std::exception_ptr error = nullptr);  // with a Hold, if it is not the caller's own
  std::vector<Link*> links_of_interest();
  std::vector<int> awaited_by(const Request& request) const;

  Transport& transport_;
  FailureMonitor& monitor_;
  const PointToPointOptions options_;
  const int rank_;
  const int world_size_;
  const int
      looks_;  // for a message before a request is made; none where ranks share CPUs: the sender may need this one

  std::mutex mutex_;
  std::condition_variable helper_needed_;
  std::list<RequestPtr> pending_;              // unfinished, oldest first
  std::list<RequestPtr> posted_;               // receives without a message yet, oldest first
  std::list<Unexpected> unexpected_;           // messages without a receive yet, oldest first
  std::vector<Arrival> arrivals_;              // per peer
  std::vector<std::size_t> unexpected_bytes_;  // per peer, kMessageBytes for each message included
  std::vector<std::size_t> unsent_bytes_;      // per peer, of messages whose sender has gone on; the same
  std::vector<std::optional<Error>> losses_;   // per peer: how its messages ended
  std::list<Posted> outbox_;
  std::vector<std::uint64_t> next_id_;                             // per destination
  std::map<std::pair<int, std::uint64_t>, RequestPtr> announced_;  // sends waiting for ClearToSend
  std::map<std::pair<int, std::uint64_t>, RequestPtr> expected_;   // receives waiting for a Rendezvous frame
  Completion::Callbacks due_;                                      // of finished requests, to be called
  std::exception_ptr failure_;
  std::atomic<int> drivers_{0};  // user threads that wait
  bool stopping_ = false;
  bool leaving_ = false;  // drain() has been called
  bool helper_alive_ = false;
  std::thread helper_;
};

/// One isend or irecv, which may outlive the engine.
struct PointToPoint::Request final : Completion {
  PointToPoint* engine = nullptr;
  Buffer data;                        // of a receive
  const void* source_data = nullptr;  // of a send
  int peer = -1;                      // -1: any
  Fingerprint fingerprint;
  Deadline deadline{Deadline::Clock::time_point{}};
  int source = -1;

  int source_rank() const override { return is_completed() ? source : -1; }
  void wait() override {
    if (!is_completed()) engine->drive(*this);
  }
};

/// Holds the engine's mutex. Callbacks of requests that finished under it are called when it is free again.
class PointToPoint::Hold {
 public:
  explicit Hold(PointToPoint& engine) : engine_(engine), lock_(engine.mutex_) {}
  ~Hold() {
    if (lock_) unlock();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void lock() { lock_.lock(); }
  void unlock() noexcept {
    const Completion::Callbacks due = std::exchange(engine_.due_, {});
    lock_.unlock();
    for (const auto& callback : due) callback();
  }
  void tell() {
    if (engine_.due_.empty()) return;
    unlock();
    lock();
  }

 private:
  PointToPoint& engine_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace tutti::comm
