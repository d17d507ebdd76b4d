#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_client.h>
#include <tutti/comm/store/tcp_store.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace tutti::comm {
namespace {

// A wait is ended by the server, which knows the missing keys; its word gets this much time to arrive.
constexpr std::chrono::milliseconds kTimeoutReplyGrace{1000};

struct Call {
  StoreOp op = StoreOp::NumKeys;
  const char* verb = "";
  StoreBody body;
  std::size_t key_stride = 1;  // every key_stride-th string is a key
};

bool waits(StoreOp op) { return op == StoreOp::Get || op == StoreOp::Wait; }

std::string describe(const Call& call) {
  std::vector<std::string_view> keys;
  std::size_t count = 0;
  for (std::size_t i = 0; i < call.body.strings.size(); i += call.key_stride) {
    if (++count <= kMissingKeysShown) keys.push_back(call.body.strings[i]);
  }
  return call.verb + std::string(count == 0 ? "" : " ") + quote_keys(keys, count);
}

double seconds_since(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

std::string in_seconds(double seconds) { return format("%.3f s", seconds); }

StoreBody strings_of(std::span<const std::string> keys) {
  check_key_count(keys.size());
  for (const std::string& key : keys) check_key(key);
  return {0, {keys.begin(), keys.end()}};
}

}  // namespace

/// A pool of connections. A call takes an idle one; it queues behind short calls, and opens another connection rather
/// than stand behind calls that wait for keys.
class TcpStore::Impl {
 public:
  Impl(const TcpStoreOptions& options, Deadline deadline) : options_(options), owner_pid_(::getpid()) {
    idle_.push_back(std::make_unique<StoreClient>(options_, deadline));
    server_ = idle_.front()->server();
    local_address_ = idle_.front()->local_host();
    server_address_ = idle_.front()->remote_host();
  }

  ~Impl() {
    if (::getpid() != owner_pid_) return;  // a forked child only drops its copies of the descriptors
    for (const auto& client : idle_) client->say_goodbye();
  }

  const std::string& local_address() const { return local_address_; }
  const std::string& server_address() const { return server_address_; }

  StoreReply request(const Call& call, Deadline deadline) {
    const auto start = Deadline::Clock::now();
    refuse_forked_child();
    std::unique_ptr<StoreClient> client = acquire(call, deadline, start);
    std::optional<StoreReply> reply;
    try {
      const Deadline until = waits(call.op) ? Deadline(deadline.time_point() + kTimeoutReplyGrace) : deadline;
      reply = client->call(call.op, call.body, deadline.remaining(), until);
    } catch (const Error& error) {
      release(call, error.code() == ErrorCode::InvalidArgument ? std::move(client) : nullptr);
      fail(call, error);
    } catch (...) {
      release(call, nullptr);
      throw;
    }
    release(call, std::move(client));
    if (!reply) throw_no_answer(call, start);
    return checked(call, std::move(*reply), start);
  }

 private:
  void refuse_forked_child() const {
    const pid_t self = ::getpid();
    if (self == owner_pid_) return;
    throw Error(ErrorCode::InvalidArgument, "this TcpStore belongs to process " + std::to_string(owner_pid_) +
                                                "; process " + std::to_string(self) +
                                                " was forked from it and must make its own");
  }

  std::unique_ptr<StoreClient> acquire(const Call& call, Deadline deadline, Deadline::Clock::time_point start) {
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return !first_failure_.empty() || !idle_.empty() || busy_short_ == 0; };
      if (!released_.wait_until(lock, deadline.time_point(), ready) || (!waits(call.op) && deadline.expired())) {
        throw_no_answer(call, start);
      }
      if (!first_failure_.empty()) throw Error(ErrorCode::PeerLost, describe(call) + ": " + first_failure_);
      if (!waits(call.op)) ++busy_short_;
      if (!idle_.empty()) {
        auto client = std::move(idle_.back());
        idle_.pop_back();
        return client;
      }
    }
    try {
      return std::make_unique<StoreClient>(options_, deadline);
    } catch (...) {
      release(call, nullptr);
      throw;
    }
  }

  void release(const Call& call, std::unique_ptr<StoreClient> client) {
    const std::lock_guard lock(mutex_);
    if (client) idle_.push_back(std::move(client));
    if (!waits(call.op)) --busy_short_;
    released_.notify_all();
  }

  /// A lost server stays lost: its keys are gone with it, so there is nothing to reconnect to.
  [[noreturn]] void fail(const Call& call, const Error& error) {
    if (error.code() == ErrorCode::PeerLost) {
      const std::lock_guard lock(mutex_);
      if (first_failure_.empty()) first_failure_ = error.what();
      released_.notify_all();
    }
    throw Error(error.code(), describe(call) + ": " + error.what());
  }

  [[noreturn]] void throw_no_answer(const Call& call, Deadline::Clock::time_point start) const {
    throw Error(ErrorCode::Timeout, describe(call) + ": timed out; the store at " + server_ +
                                        " did not answer within " + in_seconds(seconds_since(start)));
  }

  StoreReply checked(const Call& call, StoreReply reply, Deadline::Clock::time_point start) const {
    switch (reply.status) {
      case StoreStatus::Ok:
        return reply;
      case StoreStatus::Timeout: {
        const MissingKeys missing{{reply.strings.begin(), reply.strings.end()}, static_cast<std::size_t>(reply.number)};
        throw Error(ErrorCode::Timeout, missing_keys_text(missing, call.body.strings.size(), seconds_since(start)) +
                                            " in the store at " + server_);
      }
      case StoreStatus::InvalidArgument:
      case StoreStatus::Protocol:
        break;
    }
    const auto code = reply.status == StoreStatus::InvalidArgument ? ErrorCode::InvalidArgument : ErrorCode::Protocol;
    throw Error(
        code, (reply.strings.empty() ? "refused without a reason" : reply.strings[0]) + " (store at " + server_ + ")");
  }

  const TcpStoreOptions options_;
  const pid_t owner_pid_;
  std::string server_;
  std::string local_address_;
  std::string server_address_;

  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<std::unique_ptr<StoreClient>> idle_;
  int busy_short_ = 0;  // calls under way, or opening a connection, that wait for no key
  std::string first_failure_;
};

namespace {

void expect_strings(const StoreReply& reply, std::size_t count) {
  if (reply.strings.size() == count) return;
  throw Error(ErrorCode::Protocol, "the store's reply holds " + std::to_string(reply.strings.size()) +
                                       " values instead of " + std::to_string(count));
}

}  // namespace

TcpStore::TcpStore(const TcpStoreOptions& options, Deadline deadline)
    : impl_(std::make_unique<Impl>(options, deadline)) {}

TcpStore::~TcpStore() = default;

std::string TcpStore::local_address() const { return impl_->local_address(); }

std::string TcpStore::server_address() const { return impl_->server_address(); }

void TcpStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  check_key(key);
  check_value(key, value);
  impl_->request({StoreOp::Set, "set", {0, {key, value}}, 2}, deadline);
}

std::string TcpStore::get(std::string_view key, Deadline deadline) {
  check_key(key);
  StoreReply reply = impl_->request({StoreOp::Get, "get", {0, {key}}}, deadline);
  expect_strings(reply, 1);
  return std::move(reply.strings[0]);
}

void TcpStore::wait(std::span<const std::string> keys, Deadline deadline) {
  impl_->request({StoreOp::Wait, "wait for", strings_of(keys)}, deadline);
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  check_key(key);
  return impl_->request({StoreOp::Add, "add to", {delta, {key}}}, deadline).number;
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                  Deadline deadline) {
  check_key(key);
  check_value(key, desired);
  StoreReply reply =
      impl_->request({StoreOp::CompareSet, "compare_set of", {0, {key, expected, desired}}, 3}, deadline);
  expect_strings(reply, 1);
  return std::move(reply.strings[0]);
}

bool TcpStore::check(std::span<const std::string> keys, Deadline deadline) {
  return impl_->request({StoreOp::Check, "check of", strings_of(keys)}, deadline).number != 0;
}

bool TcpStore::delete_key(std::string_view key, Deadline deadline) {
  check_key(key);
  return impl_->request({StoreOp::Delete, "delete of", {0, {key}}}, deadline).number != 0;
}

std::int64_t TcpStore::num_keys(Deadline deadline) {
  return impl_->request({StoreOp::NumKeys, "num_keys", {}}, deadline).number;
}

void TcpStore::append(std::string_view key, std::string_view value, Deadline deadline) {
  check_key(key);
  check_value(key, value);
  impl_->request({StoreOp::Append, "append to", {0, {key, value}}, 2}, deadline);
}

std::vector<std::string> TcpStore::multi_get(std::span<const std::string> keys, Deadline deadline) {
  StoreReply reply = impl_->request({StoreOp::Get, "multi_get of", strings_of(keys)}, deadline);
  expect_strings(reply, keys.size());
  return std::move(reply.strings);
}

void TcpStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) {
  check_same_length(keys.size(), values.size());
  check_key_count(keys.size());
  Call call{StoreOp::Set, "multi_set of", {}, 2};
  call.body.strings.reserve(2 * keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_key(keys[i]);
    check_value(keys[i], values[i]);
    call.body.strings.push_back(keys[i]);
    call.body.strings.push_back(values[i]);
  }
  impl_->request(call, deadline);
}

}  // namespace tutti::comm
