#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_client.h>
#include <tutti/comm/store/tcp_store.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <utility>

namespace tutti::comm {

/// A pool of connections: a call takes an idle one, or opens another.
class TcpStore::Impl {
 public:
  Impl(const TcpStoreOptions& options, Deadline deadline)
      : options_(options), owner_pid_(::getpid()), server_(host_and_port(options.host, options.port)) {
    idle_.push_back(std::make_unique<StoreClient>(server_, connect_to_store(options_, deadline)));
    local_address_ = idle_.front()->local_host();
    server_address_ = idle_.front()->remote_host();
  }

  ~Impl() {
    if (::getpid() != owner_pid_) return;  // a forked child only drops its copies of the descriptors
    for (const auto& client : idle_) client->say_goodbye();
  }

  const std::string& local_address() const { return local_address_; }
  const std::string& server_address() const { return server_address_; }

  StoreResult call(const StoreRequest& request, Deadline deadline) {
    const auto start = Deadline::Clock::now();
    refuse_forked_child(owner_pid_, "TcpStore");
    std::unique_ptr<StoreClient> client = acquire(request, deadline, start);
    std::optional<StoreReply> reply;
    try {
      reply = client->call(request.op, request.body, deadline);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::InvalidArgument) release(std::move(client));
      fail(request, error);
    }
    release(std::move(client));
    if (!reply) throw_no_answer(request, start);
    return checked(request, std::move(*reply), start);
  }

 private:
  std::unique_ptr<StoreClient> acquire(const StoreRequest& request, Deadline deadline,
                                       Deadline::Clock::time_point start) {
    if (!waits(request.op) && deadline.expired()) throw_no_answer(request, start);
    {
      const std::lock_guard lock(mutex_);
      if (!first_failure_.empty()) throw Error(ErrorCode::PeerLost, request_text(request), ": ", first_failure_);
      if (!idle_.empty()) {
        auto client = std::move(idle_.back());
        idle_.pop_back();
        return client;
      }
    }
    try {
      return std::make_unique<StoreClient>(server_, connect_to_store(options_, deadline, true));
    } catch (const Error& error) {
      fail(request, error);
    }
  }

  void release(std::unique_ptr<StoreClient> client) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(client));
  }

  /// A lost server stays lost: its keys are gone with it, so there is nothing to reconnect to.
  [[noreturn]] void fail(const StoreRequest& request, const Error& error) {
    if (error.code() == ErrorCode::PeerLost) {
      const std::lock_guard lock(mutex_);
      if (first_failure_.empty()) first_failure_ = error.what();
    }
    throw Error(error.code(), request_text(request), ": ", error.what());
  }

  [[noreturn]] void throw_no_answer(const StoreRequest& request, Deadline::Clock::time_point start) const {
    throw Error(ErrorCode::Timeout, request_text(request), ": timed out; the store at ", server_,
                format(" did not answer within %.3f s", elapsed_seconds(start)));
  }

  StoreResult checked(const StoreRequest& request, StoreReply reply, Deadline::Clock::time_point start) const {
    const std::size_t values = request.op == StoreOp::Get          ? request.body.strings.size()
                               : request.op == StoreOp::CompareSet ? 1
                                                                   : 0;
    if (reply.status == StoreStatus::Timeout) {
      const MissingKeys missing{{reply.strings.begin(), reply.strings.end()}, static_cast<std::size_t>(reply.number)};
      throw Error(ErrorCode::Timeout, missing_keys_text(missing, request.body.strings.size(), elapsed_seconds(start)),
                  " in the store at ", server_);
    }
    if (reply.status != StoreStatus::Ok)
      throw Error(reply.status == StoreStatus::InvalidArgument ? ErrorCode::InvalidArgument : ErrorCode::Protocol,
                  reply.strings.empty() ? "refused without a reason" : reply.strings[0], " (store at ", server_, ")");
    if (reply.strings.size() == values) return reply;
    throw Error(ErrorCode::Protocol, "the store's reply holds ", reply.strings.size(), " values instead of ", values);
  }

  const TcpStoreOptions options_;
  const pid_t owner_pid_;
  const std::string server_;
  std::string local_address_;
  std::string server_address_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<StoreClient>> idle_;
  std::string first_failure_;
};

TcpStore::TcpStore(const TcpStoreOptions& options, Deadline deadline)
    : impl_(std::make_unique<Impl>(options, deadline)) {}

TcpStore::~TcpStore() = default;

std::string TcpStore::local_address() const { return impl_->local_address(); }

std::string TcpStore::server_address() const { return impl_->server_address(); }

StoreResult TcpStore::do_call(const StoreRequest& request, Deadline deadline) { return impl_->call(request, deadline); }

}  // namespace tutti::comm
