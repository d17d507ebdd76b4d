#include <netinet/in.h>
#include <openssl/rand.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/comm/transport/ucx/ucx_library.h>
#include <tutti/comm/wire/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr std::size_t kPieces = 4;  // each way, on their way at once
constexpr milliseconds kCloseLimit(200);
constexpr std::chrono::seconds kKeptFor(2);
constexpr int kMostSteps = 16;  // of one call of progress(): some count for nothing

// While UCX connects to a peer that computes, its descriptor stays readable for nothing (openucx/ucx issue 7864). After
// so many returns it is left out, and progress() is called by the clock.
constexpr int kFruitlessReturns = 16;
constexpr int kLongestNap = 4;  // 2^4 ms

class UcxContext final : public BulkEngine, public std::enable_shared_from_this<UcxContext> {
 public:
  UcxContext(const std::vector<std::string>& devices, const std::string& address);
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  ~UcxContext() override { ucx.ucp_cleanup(handle); }

  std::shared_ptr<BulkWorker> make_worker(std::function<void()> others_moved) override;

  const UcxLibrary& ucx = ucx_library();
  ucp_context_h handle = nullptr;
  Endpoint listens_at;
};

class UcxWorker;

/// Of every endpoint: with an error that ends its operations, where the peer is gone.
ucp_ep_params_t endpoint_parameters() {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
  return parameters;
}

/// An operation of UCX: its callback finds this, so it stays until that has come.
struct Request {
  std::atomic<bool> done{true};
  ucs_status_t status = UCS_OK;
  void* handle = nullptr;  // while it is not done
  std::size_t nbytes = 0;  // of a piece
  UcxWorker* worker = nullptr;
  std::thread::id begun_by{};
};

/// Memory of pieces that UCX knows, and the operations on them.
class Pieces {
 public:
  explicit Pieces(const UcxContext& context);
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
  ~Pieces() { context_.ucx.ucp_mem_unmap(context_.handle, handle_); }

  std::byte* memory(std::size_t index) const { return memory_ + index % kPieces * kPieceBytes; }
  Request& operator[](std::size_t index) { return requests_[index % kPieces]; }
  ucp_mem_h handle() const { return handle_; }

  // Of the pieces ever begun, the oldest that is not finished, and the next.
  std::size_t first = 0;
  std::size_t next = 0;
  bool has_room() const { return next - first < kPieces; }

  Request flush;

  bool all_done() const {
    return flush.done && std::ranges::all_of(requests_, [](const Request& one) { return one.done.load(); });
  }

 private:
  const UcxContext& context_;
  ucp_mem_h handle_ = nullptr;
  std::byte* memory_ = nullptr;
  std::array<Request, kPieces> requests_;
};

class UcxWorker final : public BulkWorker {
 public:
  UcxWorker(std::shared_ptr<UcxContext> context, std::function<void()> others_moved);
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  ~UcxWorker() override;

  std::unique_ptr<BulkChannel> open() override;
  void progress() override;
  int prepare_to_sleep(milliseconds& timeout) override;
  void nothing_came() override { fruitless_ = 0; }

  /// Begins `request`: `function` is UCX's, called with its parameters. With the mutex.
  template <typename Function>
  void begin(Request& request, ucp_mem_h memory, Function function);

  void close(ucp_ep_h endpoint);
  void await_closed();

  const std::shared_ptr<UcxContext> context;
  const UcxLibrary& ucx = context->ucx;
  ucp_worker_h handle = nullptr;
  sockaddr_storage address{};                        // of its listener
  std::mutex mutex;                                  // for all calls of UCX
  std::vector<std::unique_ptr<Request>> closing{};   // endpoints
  std::vector<std::unique_ptr<Pieces>> abandoned{};  // which a lost peer may still have had in use

  static void received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request);

 private:
  static void ended(void* handle, ucs_status_t status, void* request);
  static void accept(ucp_conn_request_h request, void* worker);

  const std::function<void()> tell_others_;
  ucp_listener_h listener_ = nullptr;
  std::vector<ucp_ep_h> accepted_;
  bool others_moved_ = false;  // an operation that another thread began has ended
  int descriptor_ = -1;
  std::atomic<int> fruitless_{0};  // sleeps that its descriptor has ended since an operation has
};

class UcxChannel final : public BulkChannel {
 public:
  explicit UcxChannel(UcxWorker& worker);
  ~UcxChannel() override;

  std::string greeting() const override {
    return std::string(reinterpret_cast<const char*>(&tag_here_), sizeof tag_here_) +
           std::string(reinterpret_cast<const char*>(&worker_.address), sizeof worker_.address);
  }
  void meet(const std::string& greeting) override;
  std::size_t send(const void* rest, std::size_t nbytes) override;
  void expect(std::uint64_t nbytes) override;
  std::span<const std::byte> readable() override;
  void consume(std::size_t nbytes) override;
  std::string failure() const override { return failure_; }

 private:
  void connect();
  void fail_unless(ucs_status_t status);
  bool is_over(const Request& request);
  bool is_flushed();
  void post_receives();

  UcxWorker& worker_;
  const UcxLibrary& ucx_ = worker_.ucx;
  std::uint64_t tag_here_ = 0;
  std::uint64_t tag_there_ = 0;
  sockaddr_storage address_there_{};
  ucp_ep_h endpoint_ = nullptr;
  std::string failure_;

  std::unique_ptr<Pieces> out_;  // with the endpoint
  std::size_t taken_ = 0;        // bytes of the offered rest that lie in out_
  bool flushes_ = false;         // what UCX still has to say about a payload's last piece

  std::unique_ptr<Pieces> in_;
  std::uint64_t to_post_ = 0;  // bytes of the payload that no receive waits for yet
  std::size_t consumed_ = 0;   // of the first piece
};

// --- The context

UcxContext::UcxContext(const std::vector<std::string>& devices, const std::string& address) {
  std::string error;
  const auto endpoints = resolve(address, 0, ResolveFor::Binding, error);
  if (endpoints.empty()) throw Error(ErrorCode::InvalidArgument, "\"" + address + "\" is no address for UCX: " + error);
  listens_at = endpoints.front();
  std::string names;
  for (const std::string& device : devices) names += (names.empty() ? "" : ",") + device;
  ucp_config_t* config = nullptr;
  ucx.require(ucx.ucp_config_read(nullptr, nullptr, &config), "read its settings");
  const auto choose = [&](const char* variable, const char* name, const std::string& value) {
    if (std::getenv(variable) == nullptr && !value.empty()) ucx.ucp_config_modify(config, name, value.c_str());
  };
  choose("UCX_TLS", "TLS", "^sm");  // within a host ranks share memory without it
  choose("UCX_NET_DEVICES", "NET_DEVICES", names);
  choose("UCX_RNDV_THRESH", "RNDV_THRESH", "8k");
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  parameters.name = "tutti";
  const ucs_status_t status = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &handle);
  ucx.ucp_config_release(config);
  ucx.require(status, ("use one of the devices " + names + " (UCX_NET_DEVICES, UCX_TLS)").c_str());
}

/// Destroys the workers that have not been in use for a while, and from now on keeps `worker` so long: where one is
/// destroyed while a peer still connects to it, as happens when a group fails, UCX 1.13 crashes.
void retire(UcxWorker* worker) {
  using Clock = std::chrono::steady_clock;
  struct Kept {
    Clock::time_point until;
    std::unique_ptr<UcxWorker> worker;
  };
  static std::mutex& mutex = *new std::mutex;  // never destroyed: groups may outlive main()
  static auto& kept = *new std::vector<Kept>;
  std::vector<Kept> over;
  const std::lock_guard lock(mutex);
  const auto now = Clock::now();
  const auto first_over = std::partition(kept.begin(), kept.end(), [&](const Kept& one) { return one.until > now; });
  std::move(first_over, kept.end(), std::back_inserter(over));
  kept.erase(first_over, kept.end());
  if (worker != nullptr) kept.push_back({now + kKeptFor, std::unique_ptr<UcxWorker>(worker)});
}

std::shared_ptr<BulkWorker> UcxContext::make_worker(std::function<void()> others_moved) {
  retire(nullptr);
  return std::shared_ptr<BulkWorker>(new UcxWorker(shared_from_this(), std::move(others_moved)), retire);
}

Pieces::Pieces(const UcxContext& context) : context_(context) {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  parameters.length = kPieces * kPieceBytes;
  parameters.flags = UCP_MEM_MAP_ALLOCATE;
  context_.ucx.require(context_.ucx.ucp_mem_map(context_.handle, &parameters, &handle_), "register memory");
  ucp_mem_attr_t found{};
  found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  context_.ucx.require(context_.ucx.ucp_mem_query(handle_, &found), "say where its memory is");
  memory_ = static_cast<std::byte*>(found.address);
}

// --- The worker

UcxWorker::UcxWorker(std::shared_ptr<UcxContext> of, std::function<void()> others_moved)
    : context(std::move(of)), tell_others_(std::move(others_moved)) {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  parameters.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  ucx.require(ucx.ucp_worker_create(context->handle, &parameters, &handle), "make a worker");
  ucx.require(ucx.ucp_worker_get_efd(handle, &descriptor_), "make a descriptor to wait at");
  ucp_listener_params_t listener{};
  listener.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  listener.sockaddr = {context->listens_at.address(), context->listens_at.length};
  listener.conn_handler = {accept, this};
  const std::string where = "listen at " + context->listens_at.host();
  ucx.require(ucx.ucp_listener_create(handle, &listener, &listener_), where.c_str());
  ucp_listener_attr_t found{};
  found.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  ucx.require(ucx.ucp_listener_query(listener_, &found), "say where it listens");
  address = found.sockaddr;
}

UcxWorker::~UcxWorker() {
  ucx.ucp_listener_destroy(listener_);
  for (const ucp_ep_h endpoint : accepted_) close(endpoint);
  await_closed();
  ucx.ucp_worker_destroy(handle);
}

/// A peer that wants to send, or a stranger, who knows no tag.
void UcxWorker::accept(ucp_conn_request_h request, void* worker) {
  auto& self = *static_cast<UcxWorker*>(worker);
  ucp_ep_params_t parameters = endpoint_parameters();
  parameters.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  ucp_ep_h endpoint = nullptr;
  if (self.ucx.ucp_ep_create(self.handle, &parameters, &endpoint) == UCS_OK) self.accepted_.push_back(endpoint);
}

/// At once, whatever the peer does: all that counts has been agreed on over the connection. With the mutex.
void UcxWorker::close(ucp_ep_h endpoint) {
  closing.push_back(std::make_unique<Request>());
  begin(*closing.back(), nullptr, [&](ucp_request_param_t& parameters) {
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    return ucx.ucp_ep_close_nbx(endpoint, &parameters);
  });
}

void UcxWorker::await_closed() {
  const auto is_open = [](const auto& request) { return !request->done; };
  const auto end = std::chrono::steady_clock::now() + kCloseLimit;
  while (std::ranges::any_of(closing, is_open) && std::chrono::steady_clock::now() < end)
    ucx.ucp_worker_progress(handle);
}

std::unique_ptr<BulkChannel> UcxWorker::open() { return std::make_unique<UcxChannel>(*this); }

void UcxWorker::ended(void* handle, ucs_status_t status, void* request) {
  auto& over = *static_cast<Request*>(request);
  over.worker->fruitless_ = 0;
  over.worker->others_moved_ |= over.begun_by != std::this_thread::get_id();
  over.worker->ucx.ucp_request_free(handle);
  over.status = status;
  over.done.store(true, std::memory_order_release);
}

void UcxWorker::received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request) {
  const bool whole = info->length == static_cast<Request*>(request)->nbytes;
  ended(handle, status == UCS_OK && !whole ? UCS_ERR_MESSAGE_TRUNCATED : status, request);
}

template <typename Function>
void UcxWorker::begin(Request& request, ucp_mem_h memory, Function function) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.send = ended;
  parameters.user_data = &request;
  if (memory != nullptr) {
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    parameters.memh = memory;
  }
  request.done = false;
  request.status = UCS_OK;
  request.worker = this;
  request.begun_by = std::this_thread::get_id();
  void* const result = function(parameters);
  if (result == nullptr || UCS_PTR_IS_ERR(result)) {
    request.status = UCS_PTR_STATUS(result);
    request.done = true;
  }
  request.handle = result;
}

void UcxWorker::progress() {
  bool moved = false;
  {
    const std::lock_guard lock(mutex);
    for (int i = 0; i < kMostSteps && ucx.ucp_worker_progress(handle) != 0; ++i) {
    }
    moved = std::exchange(others_moved_, false);
  }
  if (moved) tell_others_();
}

int UcxWorker::prepare_to_sleep(milliseconds& timeout) {
  const std::lock_guard lock(mutex);
  if (const int naps = fruitless_ - kFruitlessReturns; naps > 0) {
    timeout = std::min(timeout, milliseconds(1 << naps));
    fruitless_ += naps < kLongestNap ? 1 : -naps;
    return -1;
  }
  ++fruitless_;
  if (ucx.ucp_worker_arm(handle) == UCS_OK) return descriptor_;
  timeout = milliseconds(0);  // there is something to do already
  return -1;
}

// --- The channel

UcxChannel::UcxChannel(UcxWorker& worker) : worker_(worker) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&tag_here_), sizeof tag_here_) != 1)
    throw Error(ErrorCode::System, "OpenSSL has no random bytes for a channel's tag");
}

UcxChannel::~UcxChannel() {
  const std::lock_guard lock(worker_.mutex);
  for (Pieces* pieces : {in_.get(), out_.get()})
    for (std::size_t i = pieces != nullptr ? pieces->first : 0; pieces != nullptr && i < pieces->next; ++i)
      if (Request& request = (*pieces)[i]; !request.done) ucx_.ucp_request_cancel(worker_.handle, request.handle);
  if (endpoint_ != nullptr) worker_.close(endpoint_);
  worker_.await_closed();
  for (auto* pieces : {&in_, &out_})
    if (*pieces && !(*pieces)->all_done()) worker_.abandoned.push_back(std::move(*pieces));
}

void UcxChannel::meet(const std::string& greeting) {
  if (greeting.size() != sizeof tag_there_ + sizeof address_there_)
    throw Error(ErrorCode::Protocol, "its greeting for UCX has " + std::to_string(greeting.size()) + " bytes");
  std::memcpy(&tag_there_, greeting.data(), sizeof tag_there_);
  std::memcpy(&address_there_, greeting.data() + sizeof tag_there_, sizeof address_there_);
}

/// At the first payload. With the mutex.
void UcxChannel::connect() {
  ucp_ep_params_t parameters = endpoint_parameters();
  parameters.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  const bool is_v4 = address_there_.ss_family == AF_INET;
  parameters.sockaddr = {reinterpret_cast<const sockaddr*>(&address_there_),
                         static_cast<socklen_t>(is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))};
  out_ = std::make_unique<Pieces>(*worker_.context);
  fail_unless(ucx_.ucp_ep_create(worker_.handle, &parameters, &endpoint_));
}

void UcxChannel::fail_unless(ucs_status_t status) {
  if (status != UCS_OK && failure_.empty()) failure_ = std::string("UCX: ") + ucx_.ucs_status_string(status);
}

/// Whether it has ended well; where it has not, the channel has failed.
bool UcxChannel::is_over(const Request& request) {
  if (!request.done.load(std::memory_order_acquire)) return false;
  fail_unless(request.status);
  return request.status == UCS_OK;
}

/// What UCX reports as sent may still wait for a call of progress(), which this rank need not make for long.
bool UcxChannel::is_flushed() {
  if (!std::exchange(flushes_, true))
    worker_.begin(out_->flush, nullptr,
                  [&](ucp_request_param_t& parameters) { return ucx_.ucp_ep_flush_nbx(endpoint_, &parameters); });
  if (!is_over(out_->flush)) return false;
  flushes_ = false;
  return true;
}

std::size_t UcxChannel::send(const void* rest, std::size_t nbytes) {
  worker_.progress();
  const std::lock_guard lock(worker_.mutex);
  if (!out_) connect();
  if (!failure_.empty()) return 0;
  Pieces& out = *out_;
  for (; taken_ < nbytes && out.has_room(); ++out.next) {
    const std::size_t length = std::min(kPieceBytes, nbytes - taken_);
    std::byte* const memory = out.memory(out.next);
    std::memcpy(memory, static_cast<const std::byte*>(rest) + taken_, length);
    out[out.next].nbytes = length;
    worker_.begin(out[out.next], out.handle(), [&](ucp_request_param_t& parameters) {
      return ucx_.ucp_tag_send_nbx(endpoint_, memory, length, tag_there_, &parameters);
    });
    taken_ += length;
  }
  std::size_t left = 0;
  for (; out.first != out.next && is_over(out[out.first]); ++out.first) {
    const bool is_last = taken_ == nbytes && out.first + 1 == out.next;
    if (is_last && !is_flushed()) break;
    left += out[out.first].nbytes;
  }
  taken_ -= left;
  return left;
}

void UcxChannel::expect(std::uint64_t nbytes) {
  to_post_ = nbytes;
  post_receives();
}

void UcxChannel::post_receives() {
  const std::lock_guard lock(worker_.mutex);
  if (!in_) in_ = std::make_unique<Pieces>(*worker_.context);
  Pieces& in = *in_;
  for (; to_post_ > 0 && in.has_room(); ++in.next) {
    Request& request = in[in.next];
    request.nbytes = std::min<std::uint64_t>(kPieceBytes, to_post_);
    worker_.begin(request, in.handle(), [&](ucp_request_param_t& parameters) {
      parameters.cb.recv = UcxWorker::received;
      return ucx_.ucp_tag_recv_nbx(worker_.handle, in.memory(in.next), request.nbytes, tag_here_, ~std::uint64_t{0},
                                   &parameters);
    });
    to_post_ -= request.nbytes;
  }
}

std::span<const std::byte> UcxChannel::readable() {
  if (!in_ || in_->first == in_->next) return {};
  if (!(*in_)[in_->first].done) worker_.progress();
  const Request& request = (*in_)[in_->first];
  if (!is_over(request)) return {};
  return {in_->memory(in_->first) + consumed_, request.nbytes - consumed_};
}

void UcxChannel::consume(std::size_t nbytes) {
  consumed_ += nbytes;
  if (consumed_ < (*in_)[in_->first].nbytes) return;
  consumed_ = 0;
  ++in_->first;
  post_receives();
}

}  // namespace

std::shared_ptr<BulkEngine> open_ucx(const std::vector<std::string>& devices, const std::string& address) {
  if (const std::string refusal = ucx_refusal(); !refusal.empty()) throw Error(ErrorCode::InvalidArgument, refusal);
  return std::make_shared<UcxContext>(devices, address);
}

}  // namespace tutti::comm
