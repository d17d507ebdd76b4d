#include <openssl/rand.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/comm/transport/ucx/ucx_library.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/ip/tcp.hpp>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr std::size_t kPieces = 4;  // each way, on their way at once
constexpr int kMostSteps = 16;      // of one call of progress(): some count for nothing
constexpr std::size_t kMostRails = 8;

// While UCX connects to a peer that computes, its descriptor stays readable for nothing (openucx/ucx issue 7864). After
// so many returns in a row it is left out of every other sleep, which is a short one then.
constexpr int kFruitlessReturns = 16;
constexpr milliseconds kNap(10);

class UcxEngine;

/// What a channel has asked UCX for.
struct Operation {
  bool done = true;
  ucs_status_t status = UCS_OK;
  std::size_t nbytes = 0;   // of a piece
  void* request = nullptr;  // UCX's name for it until it is done
  std::thread::id begun_by{};
};

/// Memory that UCX knows, of pieces one way, and the operations on them. Each of these keeps it, until UCX has ended
/// it.
struct Pieces {
  ucp_mem_h handle = nullptr;
  std::vector<std::byte> memory = std::vector<std::byte>(kPieces * kPieceBytes);
  std::array<Operation, kPieces> operations{};
  std::array<Operation, kMostRails> flushes{};
  std::function<void()> wake{};  // of the channel that has it; null when that is over

  // Of the pieces ever begun, the oldest that is not finished, and the next.
  std::size_t first = 0;
  std::size_t next = 0;

  bool has_room() const { return next - first < kPieces; }
  std::byte* at(std::size_t index) { return memory.data() + index % kPieces * kPieceBytes; }
  Operation& operator[](std::size_t index) { return operations[index % kPieces]; }
};

/// What UCX holds while an operation runs; the engine frees those that never end.
struct Running {
  UcxEngine* engine;
  std::shared_ptr<Pieces> pieces;
  Operation* operation;
  std::list<Running>::iterator self{};
};

/// A rank's worker. One mutex is around all calls of UCX. It lives until the process ends, and a later world has it
/// again: UCX 1.13 crashes where a worker is destroyed while a peer connects to it, as when a group fails.
class UcxEngine final : public BulkEngine {
 public:
  UcxEngine(std::string devices, std::vector<std::string> addresses);
  ~UcxEngine() override;
  void start();

  std::string address() const override { return listens_at_; }
  std::unique_ptr<BulkChannel> open(const std::string& peer_address, std::function<void()> wake) override;
  void progress() override;
  int prepare_to_sleep(milliseconds& timeout) override;
  void was_readable() override;

  /// Begins `operation` of `pieces`: `function` is UCX's, called with its parameters. With the mutex, as the next
  /// three.
  template <typename Function>
  void begin(const std::shared_ptr<Pieces>& pieces, Operation& operation, Function function);
  std::shared_ptr<Pieces> take_pieces(std::function<void()> wake);
  void close(ucp_ep_h endpoint);
  void advance();

  const std::string devices;
  const std::vector<std::string> bind_addresses;  // a rail each

  // Whether UCX uses all devices for one endpoint: cards ("mlx5_0:1"), as these addresses may not be theirs; never
  // interfaces, as UCX 1.13 may never connect where two hosts have them in different orders. Alike at both ends.
  const std::string spread = devices.find(':') != std::string::npos ? "y" : "n";
  const UcxLibrary& ucx = ucx_library();
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  std::mutex mutex;

  static void sent(void* request, ucs_status_t status, void* running);
  static void received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* running);

 private:
  void make_context();
  void listen(const std::string& address);
  static void accept(ucp_conn_request_h request, void* engine);

  std::vector<ucp_listener_h> listeners_;
  std::string listens_at_ = spread;  // and ",10.0.0.2:40913" for each rail
  std::vector<ucp_ep_h> accepted_;
  int descriptor_ = -1;
  int fruitless_ = 0;  // returns of its descriptor since an operation has ended
  std::vector<std::shared_ptr<Pieces>> pieces_;
  std::list<Running> running_;
};

class UcxChannel final : public BulkChannel {
 public:
  UcxChannel(UcxEngine& engine, const std::string& peer_address, std::function<void()> wake);
  ~UcxChannel() override;

  std::uint64_t tag() const override { return tag_; }
  std::size_t send(const void* rest, std::size_t nbytes) override;
  void expect(std::uint64_t tag, std::uint64_t nbytes) override;
  std::span<const std::byte> readable() override;
  void consume(std::size_t nbytes) override;
  std::string failure() const override { return failure_; }

 private:
  void connect();
  void fail_unless(ucs_status_t status);
  bool has_ended(const Operation& operation);
  bool is_flushed();
  void post_receives();

  UcxEngine& engine_;
  const UcxLibrary& ucx_ = engine_.ucx;
  std::vector<std::string> rails_;  // where the peer listens: as many of its addresses as this rank has, too
  const std::function<void()> wake_;
  std::uint64_t tag_ = 0;
  std::vector<ucp_ep_h> endpoints_;  // of the rails
  std::string failure_;

  std::shared_ptr<Pieces> out_;  // with the endpoint
  std::size_t taken_ = 0;        // bytes of the offered rest that lie in out_
  bool flushes_ = false;         // what UCX still has to say about a payload's last piece

  std::shared_ptr<Pieces> in_;
  std::uint64_t expected_tag_ = 0;
  std::uint64_t to_post_ = 0;  // bytes of the payload that no receive waits for yet
  std::size_t consumed_ = 0;   // of the first piece
};

/// Of every endpoint: its operations end with an error where the peer is gone.
ucp_ep_params_t endpoint_parameters(ucp_err_handler_cb_t handle_error, UcxEngine* engine) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {handle_error, engine};
  return parameters;
}

// --- The engine

UcxEngine::UcxEngine(std::string on, std::vector<std::string> at)
    : devices(std::move(on)), bind_addresses(std::move(at)) {}

void UcxEngine::start() {
  make_context();
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucx.require(ucx.ucp_worker_create(context, &parameters, &worker), "make a worker");
  ucx.require(ucx.ucp_worker_get_efd(worker, &descriptor_), "make a descriptor to wait at");
  for (const std::string& address : bind_addresses) listen(address);
}

void UcxEngine::listen(const std::string& address) {
  const asio::ip::tcp::endpoint at(asio::ip::make_address(address), 0);
  ucp_listener_params_t parameters{};
  parameters.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr = {at.data(), static_cast<socklen_t>(at.size())};
  parameters.conn_handler = {accept, this};
  ucp_listener_h& listener = listeners_.emplace_back();
  ucx.require(ucx.ucp_listener_create(worker, &parameters, &listener), "listen at " + address);
  ucp_listener_attr_t found{};
  found.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  ucx.require(ucx.ucp_listener_query(listener, &found), "say where it listens");
  listens_at_ += "," + Endpoint{found.sockaddr, parameters.sockaddr.addrlen}.text();
}

/// No channel is left; start() may have thrown.
UcxEngine::~UcxEngine() {
  if (worker != nullptr) advance();
  while (!accepted_.empty()) close(accepted_.back());
  if (worker != nullptr) advance();
  for (ucp_listener_h listener : listeners_)
    if (listener != nullptr) ucx.ucp_listener_destroy(listener);
  if (worker != nullptr) ucx.ucp_worker_destroy(worker);
  for (const auto& pieces : pieces_) ucx.ucp_mem_unmap(context, pieces->handle);
  if (context != nullptr) ucx.ucp_cleanup(context);
}

void UcxEngine::make_context() {
  ucp_config_t* config = nullptr;
  ucx.require(ucx.ucp_config_read(nullptr, nullptr, &config), "read its settings");
  const auto choose = [&](const char* variable, const char* name, const std::string& value) {
    if (std::getenv(variable) == nullptr && !value.empty()) ucx.ucp_config_modify(config, name, value.c_str());
  };
  choose("UCX_TLS", "TLS", "^sm,self");  // those within a host, which would hide that there is no device
  choose("UCX_NET_DEVICES", "NET_DEVICES", devices);
  choose("UCX_RNDV_THRESH", "RNDV_THRESH", "8k");
  choose("UCX_CM_USE_ALL_DEVICES", "CM_USE_ALL_DEVICES", spread);
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  parameters.name = "tutti";
  const ucs_status_t status = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context);
  ucx.ucp_config_release(config);
  ucx.require(status, "use one of the devices " + devices + " (UCX_NET_DEVICES, UCX_TLS)");
}

/// A peer that wants to send; or a stranger, that knows no tag.
void UcxEngine::accept(ucp_conn_request_h request, void* engine) {
  auto& self = *static_cast<UcxEngine*>(engine);
  const auto close_lost = [](void* of, ucp_ep_h lost, ucs_status_t) { static_cast<UcxEngine*>(of)->close(lost); };
  ucp_ep_params_t parameters = endpoint_parameters(close_lost, &self);
  parameters.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  ucp_ep_h endpoint = nullptr;
  if (self.ucx.ucp_ep_create(self.worker, &parameters, &endpoint) == UCS_OK) self.accepted_.push_back(endpoint);
}

/// At once, whatever the peer does: all that counts has been agreed on over the connection.
void UcxEngine::close(ucp_ep_h endpoint) {
  std::erase(accepted_, endpoint);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ucx.ucp_ep_close_nbx(endpoint, &parameters);
  if (UCS_PTR_IS_PTR(request)) ucx.ucp_request_free(request);
}

/// Those that no channel and no operation has any more, or new ones.
std::shared_ptr<Pieces> UcxEngine::take_pieces(std::function<void()> wake) {
  auto free = std::ranges::find_if(pieces_, [](const auto& pieces) { return pieces.use_count() == 1; });
  if (free == pieces_.end()) {
    auto pieces = std::make_shared<Pieces>();
    ucp_mem_map_params_t parameters{};
    parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    parameters.address = pieces->memory.data();
    parameters.length = pieces->memory.size();
    ucx.require(ucx.ucp_mem_map(context, &parameters, &pieces->handle), "register memory");
    free = pieces_.insert(pieces_.end(), std::move(pieces));
  }
  (*free)->first = (*free)->next = 0;
  (*free)->wake = std::move(wake);
  return *free;
}

void UcxEngine::sent(void* request, ucs_status_t status, void* running) {
  const Running& ended = *static_cast<Running*>(running);
  Operation& operation = *ended.operation;
  operation.done = true;
  operation.status = status;
  if (ended.pieces->wake && operation.begun_by != std::this_thread::get_id()) ended.pieces->wake();
  ended.engine->fruitless_ = 0;
  ended.engine->running_.erase(ended.self);
  ucx_library().ucp_request_free(request);
}

void UcxEngine::received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* running) {
  const bool whole = info->length == static_cast<Running*>(running)->operation->nbytes;
  sent(request, status == UCS_OK && !whole ? UCS_ERR_MESSAGE_TRUNCATED : status, running);
}

template <typename Function>
void UcxEngine::begin(const std::shared_ptr<Pieces>& pieces, Operation& operation, Function function) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.send = sent;
  parameters.memh = pieces->handle;
  const auto running = running_.insert(running_.end(), {this, pieces, &operation});
  running->self = running;
  parameters.user_data = &*running;
  operation.done = false;
  operation.begun_by = std::this_thread::get_id();
  operation.request = function(parameters);
  if (UCS_PTR_IS_PTR(operation.request)) return;  // sent() will be called
  running_.erase(running);
  operation.status = UCS_PTR_STATUS(operation.request);
  operation.done = true;
}

void UcxEngine::progress() {
  const std::lock_guard lock(mutex);
  advance();
}

void UcxEngine::advance() {
  for (int i = 0; i < kMostSteps && ucx.ucp_worker_progress(worker) != 0; ++i) {
  }
}

int UcxEngine::prepare_to_sleep(milliseconds& timeout) {
  const std::lock_guard lock(mutex);
  if (fruitless_ >= kFruitlessReturns) {
    --fruitless_;
    timeout = std::min(timeout, kNap);
    return -1;
  }
  if (ucx.ucp_worker_arm(worker) == UCS_OK) return descriptor_;
  timeout = milliseconds(0);  // there is something to do already
  ++fruitless_;
  return -1;
}

void UcxEngine::was_readable() {
  const std::lock_guard lock(mutex);
  ++fruitless_;
}

std::unique_ptr<BulkChannel> UcxEngine::open(const std::string& peer_address, std::function<void()> wake) {
  return std::make_unique<UcxChannel>(*this, peer_address, std::move(wake));
}

/// At the end of the process those without a group are destroyed; not by a child, which shares them with it.
struct Engines {
  ~Engines() {
    if (::getpid() == made_by) std::erase_if(all, [](const auto& engine) { return engine.use_count() == 1; });
  }

  const pid_t made_by = ::getpid();
  std::mutex mutex{};
  std::vector<std::shared_ptr<UcxEngine>>& all = *new std::vector<std::shared_ptr<UcxEngine>>;
};

// --- The channel

UcxChannel::UcxChannel(UcxEngine& engine, const std::string& peer_address, std::function<void()> wake)
    : engine_(engine), rails_(split(peer_address, ',')), wake_(std::move(wake)) {
  if (rails_.front() != engine_.spread)
    failure_ = "UCX: of the two hosts only one has a card: use --transport auto, or name an interface with --iface";
  rails_.erase(rails_.begin());
  rails_.resize(std::min(rails_.size(), engine_.bind_addresses.size()));
  for (; tag_ == 0; tag_ &= ~std::uint64_t{kMostRails - 1})  // plus the rail's number
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&tag_), sizeof tag_) != 1)
      throw Error(ErrorCode::System, "OpenSSL has no random bytes for a channel's tag");
}

UcxChannel::~UcxChannel() {
  const std::lock_guard lock(engine_.mutex);
  for (const auto& pieces : {in_, out_}) {
    if (pieces == nullptr) continue;
    pieces->wake = nullptr;
    for (const Operation& one : pieces->operations)
      if (!one.done) ucx_.ucp_request_cancel(engine_.worker, one.request);
  }
  for (ucp_ep_h endpoint : endpoints_)
    if (endpoint != nullptr) engine_.close(endpoint);
}

/// At the first payload. With the mutex.
void UcxChannel::connect() {
  out_ = engine_.take_pieces(wake_);
  for (const std::string& address : rails_) {
    const asio::ip::tcp::endpoint peer = parse_endpoint(address);
    ucp_ep_params_t parameters = endpoint_parameters([](void*, ucp_ep_h, ucs_status_t) {}, &engine_);
    parameters.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    parameters.sockaddr = {peer.data(), static_cast<socklen_t>(peer.size())};
    fail_unless(ucx_.ucp_ep_create(engine_.worker, &parameters, &endpoints_.emplace_back(nullptr)));
  }
}

void UcxChannel::fail_unless(ucs_status_t status) {
  if (status != UCS_OK && failure_.empty()) failure_ = joined("UCX: ", ucx_.ucs_status_string(status));
}

/// Whether it has ended well; where it has not, the channel has failed.
bool UcxChannel::has_ended(const Operation& operation) {
  if (!operation.done) return false;
  fail_unless(operation.status);
  return operation.status == UCS_OK;
}

/// What UCX reports as sent may still wait for a call of progress(), which this rank need not make for long.
bool UcxChannel::is_flushed() {
  const bool begins = !std::exchange(flushes_, true);
  bool all = true;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    if (begins)
      engine_.begin(out_, out_->flushes[rail], [&](ucp_request_param_t& parameters) {
        return ucx_.ucp_ep_flush_nbx(endpoints_[rail], &parameters);
      });
    all = has_ended(out_->flushes[rail]) && all;
  }
  flushes_ = !all;
  return all;
}

std::size_t UcxChannel::send(const void* rest, std::size_t nbytes) {
  const std::lock_guard lock(engine_.mutex);
  engine_.advance();
  if (!out_ && failure_.empty()) connect();
  if (!failure_.empty()) return 0;
  Pieces& out = *out_;
  for (; taken_ < nbytes && out.has_room(); ++out.next) {
    Operation& piece = out[out.next];
    piece.nbytes = std::min(kPieceBytes, nbytes - taken_);
    std::memcpy(out.at(out.next), static_cast<const std::byte*>(rest) + taken_, piece.nbytes);
    const std::size_t rail = out.next % rails_.size();
    engine_.begin(out_, piece, [&](ucp_request_param_t& parameters) {
      return ucx_.ucp_tag_send_nbx(endpoints_[rail], out.at(out.next), piece.nbytes, tag_ + rail, &parameters);
    });
    taken_ += piece.nbytes;
  }
  std::size_t left = 0;
  for (; out.first != out.next && has_ended(out[out.first]); ++out.first) {
    const bool is_last = taken_ == nbytes && out.first + 1 == out.next;
    if (is_last && !is_flushed()) break;
    left += out[out.first].nbytes;
  }
  taken_ -= left;
  return left;
}

void UcxChannel::expect(std::uint64_t tag, std::uint64_t nbytes) {
  const std::lock_guard lock(engine_.mutex);
  expected_tag_ = tag;
  to_post_ = nbytes;
  if (!in_) in_ = engine_.take_pieces(wake_);
  post_receives();
}

void UcxChannel::post_receives() {
  Pieces& in = *in_;
  for (; to_post_ > 0 && in.has_room(); ++in.next) {
    Operation& piece = in[in.next];
    piece.nbytes = std::min<std::uint64_t>(kPieceBytes, to_post_);
    const std::uint64_t tag = expected_tag_ + in.next % rails_.size();
    engine_.begin(in_, piece, [&](ucp_request_param_t& parameters) {
      parameters.cb.recv = UcxEngine::received;
      return ucx_.ucp_tag_recv_nbx(engine_.worker, in.at(in.next), piece.nbytes, tag, ~std::uint64_t{0}, &parameters);
    });
    to_post_ -= piece.nbytes;
  }
}

std::span<const std::byte> UcxChannel::readable() {
  if (!in_ || in_->first == in_->next) return {};
  const std::lock_guard lock(engine_.mutex);
  const Operation& piece = (*in_)[in_->first];
  if (!piece.done) engine_.advance();
  if (!has_ended(piece)) return {};
  return {in_->at(in_->first) + consumed_, piece.nbytes - consumed_};
}

void UcxChannel::consume(std::size_t nbytes) {
  consumed_ += nbytes;
  if (consumed_ < (*in_)[in_->first].nbytes) return;
  const std::lock_guard lock(engine_.mutex);
  consumed_ = 0;
  ++in_->first;
  post_receives();
}

}  // namespace

std::shared_ptr<BulkEngine> open_ucx(const std::string& devices, std::vector<std::string> addresses) {
  if (!ucx_refusal().empty()) refuse(ucx_refusal());
  if (addresses.size() > kMostRails) addresses.resize(kMostRails);
  static Engines engines;
  const std::lock_guard lock(engines.mutex);
  for (const auto& engine : engines.all)
    if (engine.use_count() == 1 && engine->devices == devices && engine->bind_addresses == addresses) return engine;
  auto engine = std::make_shared<UcxEngine>(devices, std::move(addresses));
  engine->start();
  return engines.all.emplace_back(std::move(engine));
}

}  // namespace tutti::comm
