#include <sys/eventfd.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace tutti::tools {
namespace {

using comm::Deadline;
using comm::Error;
using comm::ErrorCode;
using std::chrono::milliseconds;

constexpr milliseconds kConnectPiece{2000};  // so long may the end of the program wait for a connect
constexpr milliseconds kPause{100};          // between two looks at the meeting file ...
constexpr milliseconds kReportAfter{5000};   // ... of which nothing is said at first
constexpr milliseconds kListenPiece{500};
constexpr milliseconds kFirstCall{30'000};  // the first calls after the connect
constexpr char kFolderHint[] =
    ". Did node 0's agent start, and is this folder the same on all nodes? If not, set TUTTI_MEET_DIR to one that is, "
    "or give --rdzv-endpoint";

}  // namespace

class ControlLink::Impl {
 public:
  Impl(const NodeOptions& options, std::string secret, Hello hello)
      : options_(options),
        secret_(std::move(secret)),
        hello_(std::move(hello)),
        hosts_(options.addresses.empty() ? std::vector{options.host} : options.addresses),
        port_(options.port),
        fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) comm::throw_errno("cannot make an event descriptor", errno);
    listener_ = std::thread([this] { listen(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    listener_.join();  // has joined the sender
    store_.reset();
    ::close(fd_);
  }

  int fd() const { return fd_; }

  std::optional<LinkEvent> next() {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof(count));
      return std::nullopt;
    }
    LinkEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void post(Message message) {
    {
      const std::lock_guard lock(mutex_);
      outgoing_.push_back(letter_of(std::move(message)));
    }
    changed_.notify_all();
  }

  bool flush(milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return outgoing_.empty() || lost_; });
    return outgoing_.empty();
  }

  void lost(const std::string& text) { push({LinkEvent::Kind::Lost, {}, text}); }

  int agent() const { return agent_; }
  const std::string& server_address() const { return server_address_; }

 private:
  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_ || lost_;
  }

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof(one));
  }

  void push(LinkEvent event) {
    const std::lock_guard lock(mutex_);
    if (event.kind == LinkEvent::Kind::Lost) {
      if (lost_) return;  // the first cause
      lost_ = true;
      changed_.notify_all();
    }
    events_.push_back(std::move(event));
    wake();
  }

  void listen() {
    try {
      if (!connect()) return;
      heard_ = true;
      std::thread sender([this] { send(); });
      std::thread watcher([this] { watch(); });
      read_log();
      watcher.join();
      sender.join();
    } catch (const std::exception& error) {
      lost(error.what());
    }
  }

  comm::TcpStoreOptions store_options(const std::string& host, int rank) const {
    return {.host = host, .port = port_, .job_id = kControlJob, .job_secret = secret_, .rank = rank};
  }

  // A first connection asks for this agent's number; the one that stays carries it, so that the server can tell whose
  // process has died.
  void try_host(const std::string& host) {
    int agent = 0;
    {
      comm::TcpStore asking(store_options(host, -1), Deadline::after(kConnectPiece));
      if (!nonce_.empty() && asking.get(kNonceKey, Deadline::after(kConnectPiece)) != nonce_)
        throw Error(ErrorCode::PeerLost, "another job's coordinator is at " + host);
      agent = static_cast<int>(asking.add(kAgentCount, 1, Deadline::after(kFirstCall))) - 1;
    }
    store_ = std::make_unique<comm::TcpStore>(store_options(host, agent), Deadline::after(kFirstCall));
    const Deadline deadline = Deadline::after(kFirstCall);
    next_entry_ = store_->add(kLogCount, 0, deadline);
    next_slot_ = store_->add(kMailHint, 0, deadline);
    store_->set(beat_key(agent), "0", deadline);
    agent_ = agent;
    server_address_ = store_->server_address();
    hello_.address = store_->local_address();
  }

  // Where the coordinator may be; none, and why in `reason`, while the meeting file does not say.
  std::vector<std::string> look_for_hosts(std::string& reason) {
    if (options_.meeting_file.empty()) return hosts_;
    const auto found = comm::MeetingFile(options_.meeting_file, secret_).look();
    reason = found ? found->state : "it is not there";
    if (!found || found->reading != comm::Reading::Whole) return {};
    port_ = found->announcement.port;
    nonce_ = found->announcement.nonce;
    published_by_ = "the agent of node 0 (pid " + std::to_string(found->announcement.pid) + " on host " +
                    found->announcement.host + ") cannot be reached: ";
    return found->announcement.addresses;
  }

  bool connect() {
    const Deadline deadline = Deadline::after(options_.join_timeout);
    const bool by_file = !options_.meeting_file.empty();
    const Deadline report = Deadline::after(by_file ? kReportAfter : milliseconds(0));
    std::string reason;
    for (bool told = false;;) {
      for (const std::string& host : look_for_hosts(reason)) {
        if (stopping()) return false;
        try {
          try_host(host);
          post_first(hello_);
          push({LinkEvent::Kind::Connected, {}, {}});
          return true;
        } catch (const Error& error) {
          const bool may_come = error.code() == ErrorCode::Timeout || error.code() == ErrorCode::PeerLost;
          if (!may_come && !by_file && hosts_.size() == 1) throw;
          reason = published_by_ + error.what();
        }
      }
      if (!told && report.expired()) {
        push({LinkEvent::Kind::Waiting, {}, reason});
        told = true;
      }
      if (deadline.expired()) throw Error(ErrorCode::Timeout, reason + (by_file ? kFolderHint : ""));
      if (by_file && !pause()) return false;
    }
  }

  // False: this end is asked to stop.
  bool pause() {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, kPause, [this] { return stopping_ || lost_; });
  }

  void post_first(Message message) {
    const std::lock_guard lock(mutex_);
    outgoing_.push_front(letter_of(std::move(message)));
  }

  // Who sends it is put in when it is sent.
  static Letter letter_of(Message message) { return {.sent = RankEnd::Clock::now(), .message = std::move(message)}; }

  void read_log() {
    while (!stopping()) {
      try {
        const std::string bytes = store_->get(log_key(next_entry_), Deadline::after(kListenPiece));
        ++next_entry_;
        Letter letter = decode(bytes, RankEnd::Clock::now());
        if (letter.agent != kToAll && letter.agent != agent_) continue;
        const bool last = is_last(letter.message);
        push({LinkEvent::Kind::Told, std::move(letter.message), {}});
        if (last) return;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Timeout) lost(loss_of(error));
      }
    }
  }

  static std::string loss_of(const Error& error) {
    return error.code() == ErrorCode::PeerLost ? "it is gone (killed, or its host is down)" : error.what();
  }

  // After these nothing follows that concerns this agent.
  static bool is_last(const Message& message) {
    const auto* const verdict = std::get_if<Verdict>(&message);
    return verdict != nullptr && verdict->final;
  }

  // Messages at once, heartbeats in between.
  void send() {
    auto next_beat = std::chrono::steady_clock::now();
    long beat = 0;
    for (;;) {
      std::optional<Letter> letter;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_until(lock, next_beat, [this] { return stopping_ || lost_ || !outgoing_.empty(); });
        if (lost_ || (stopping_ && outgoing_.empty())) return;
        if (!outgoing_.empty()) letter = outgoing_.front();
      }
      if (letter) {
        try_post(*letter);
      } else {
        attempt([&] { store_->set(beat_key(agent_), std::to_string(++beat), patience()); });
        next_beat = std::chrono::steady_clock::now() + options_.heartbeat;
      }
    }
  }

  // Every answer to the sender is a sign of life of the coordinator.
  void watch() {
    const auto between = options_.heartbeat / 2;
    PatientTimer silence(between, std::chrono::steady_clock::now());
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, between, [this] { return stopping_ || lost_; })) {
      silence.look(std::chrono::steady_clock::now(), heard_.exchange(false));
      if (silence.silence() < options_.silence) continue;
      const std::string text = comm::format("it has not answered for %.1f s (frozen, or its host is cut off)",
                                            std::chrono::duration<double>(silence.silence()).count());
      lock.unlock();
      lost(text);
      return;
    }
  }

  // A call that gets no answer costs its connection, so it is given more time than the watcher gives the coordinator.
  Deadline patience() const { return Deadline::after(options_.silence + options_.heartbeat); }

  // Into the first free slot of the inbox. A write that seemed to have no answer is found to be done already.
  void try_post(Letter letter) {
    attempt([&] {
      letter.agent = agent_;
      const std::string bytes = encode(letter);
      const Deadline deadline = patience();
      while (store_->compare_set(mail_key(next_slot_), "", bytes, deadline) != bytes) ++next_slot_;
      const std::lock_guard lock(mutex_);
      outgoing_.pop_front();
      changed_.notify_all();
    });
  }

  template <typename Call>
  void attempt(const Call& call) {
    try {
      call();
      heard_ = true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Timeout) lost(loss_of(error));
    }
  }

  const NodeOptions options_;
  const std::string secret_;
  Hello hello_;
  const std::vector<std::string> hosts_;
  std::uint16_t port_;
  std::string nonce_;         // of a coordinator that has published itself; else ""
  std::string published_by_;  // for error texts
  const int fd_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LinkEvent> events_;
  std::deque<Letter> outgoing_;
  bool stopping_ = false;
  bool lost_ = false;

  std::unique_ptr<comm::TcpStore> store_;
  std::atomic<int> agent_{-1};
  std::atomic<bool> heard_{false};  // the coordinator has answered since the watcher's last look
  std::string server_address_;      // written before Connected is pushed
  long next_entry_ = 0;             // of the log
  long next_slot_ = 0;              // of the inbox
  std::thread listener_;            // the last member: it uses the others
};

ControlLink::ControlLink(const NodeOptions& options, std::string job_secret, Hello hello)
    : impl_(std::make_unique<Impl>(options, std::move(job_secret), std::move(hello))) {}

ControlLink::~ControlLink() = default;

int ControlLink::fd() const { return impl_->fd(); }
std::optional<LinkEvent> ControlLink::next() { return impl_->next(); }
void ControlLink::lose(const std::string& why) { impl_->lost(why); }
void ControlLink::post(Message message) { impl_->post(std::move(message)); }
bool ControlLink::flush(std::chrono::milliseconds limit) { return impl_->flush(limit); }
int ControlLink::agent() const { return impl_->agent(); }
std::string ControlLink::server_address() const { return impl_->server_address(); }

}  // namespace tutti::tools
