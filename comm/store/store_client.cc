#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_client.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSmallBuffer = 4096;

// A wait is ended at the server, which knows the missing keys; its reply gets this much time to arrive.
constexpr milliseconds kTimeoutReplyGrace{1000};

constexpr milliseconds kFirstBackoff{5};
constexpr milliseconds kLongestBackoff{500};
// One address that drops packets must not use up the time of the others.
constexpr milliseconds kConnectLimit{5000};
constexpr milliseconds kReportAfter{5000};  // logs a store that has not been reached
// A server that is just ending may hang up once or twice; one that does so every time speaks another protocol.
constexpr int kHangUpsBelieved = 5;

/// This attempt came to nothing; another may do better.
struct Failed {
  std::string reason;
  bool hung_up = false;
  int error_number = 0;  // of connect(2)
};

/// Address and reason of every attempt, of which equal ones are counted, and what the connections' errors mean, each
/// once.
class Attempts {
 public:
  void add(const std::string& address, const std::string& reason) {
    const std::string text = address + ": " + reason;
    const auto known = std::ranges::find(entries_, text, &std::pair<std::string, int>::first);
    if (known != entries_.end()) {
      ++known->second;
    } else {
      entries_.emplace_back(text, 1);
    }
  }

  void add(const Endpoint& endpoint, const Failed& failed, int rank) {
    add(endpoint.text(), failed.reason);
    if (failed.error_number == 0) return;
    const bool here = is_loopback_address(endpoint.host());
    if (const std::string from = route_source(endpoint.host()); !from.empty()) explain("from " + from);
    explain(here && failed.error_number == ENETUNREACH ? "is the loopback interface down? ip link set lo up"
                                                       : connect_hint(failed.error_number));
    if (here && rank != 0) explain(endpoint.host() + " is this host itself, so the owner must run here, too");
  }

  std::string text() const {
    std::string result;
    for (const auto& [text, count] : entries_) {
      result += (result.empty() ? "" : "; ") + text;
      if (count > 1) result += " (" + std::to_string(count) + " times)";
    }
    return hints_.empty() ? result : result + hints_ + ")";
  }

 private:
  void explain(std::string_view hint) {
    if (!hint.empty() && hints_.find(hint) == std::string::npos)
      hints_ += (hints_.empty() ? " (" : "; ") + std::string(hint);
  }

  std::string hints_;
  std::vector<std::pair<std::string, int>> entries_;
};

bool worth_retrying(int error_number) {
  constexpr int kHopeless[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EACCES, EPERM};
  return std::ranges::find(kHopeless, error_number) == std::end(kHopeless);
}

Socket connect_one(const Endpoint& endpoint, Deadline deadline) {
  Socket socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) {
    if (!worth_retrying(errno)) throw_errno("open a socket to the store at " + endpoint.text(), errno);
    throw Failed{errno_text(errno)};
  }
  const int error_number = connect_until(socket, endpoint, deadline);
  if (error_number == ETIMEDOUT) throw Failed{"no answer to the connect in time", false, ETIMEDOUT};
  if (error_number != 0) {
    if (!worth_retrying(error_number)) throw_errno("connect to the store at " + endpoint.text(), error_number);
    throw Failed{errno_text(error_number), false, error_number};
  }
  // Without a listener on an ephemeral port of this host, the kernel may connect a socket to itself.
  if (local_endpoint(socket.get()).text() == endpoint.text())
    throw Failed{errno_text(ECONNREFUSED), false, ECONNREFUSED};
  tune_connection(socket.get());
  return socket;
}

/// In the handshake, where all that was sent before has been answered: the socket's buffer has room.
void send_all(int socket, std::span<const std::byte> bytes) {
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    throw Failed{errno_text(errno) + " during the handshake", true};
}

template <std::size_t N>
std::array<std::byte, N> receive(int socket, Deadline deadline) {
  std::array<std::byte, N> bytes{};
  for (std::size_t have = 0; have < N;) {
    const bool in_time = poll_until(socket, POLLIN, deadline);
    const ssize_t count = in_time ? ::recv(socket, bytes.data() + have, N - have, 0) : -1;
    const std::string came = "; it sent " + quote_bytes(std::span(bytes).first(have));
    if (!in_time) throw Failed{"connected, but it did not finish the handshake" + came};
    if (count == 0) throw Failed{"it closed the connection during the handshake" + came, true};
    if (count < 0) throw Failed{errno_text(errno) + " during the handshake" + came, true};
    have += static_cast<std::size_t>(count);
  }
  return bytes;
}

/// The server may have let us in, or be about to: a client that has given up is no lost rank.
void say_goodbye(int socket) {
  std::string message;
  append_store_message(message, static_cast<std::uint8_t>(StoreOp::Goodbye), 1, {});
  ::send(socket, message.data(), message.size(), MSG_NOSIGNAL);
}

void authenticate(int socket, const TcpStoreOptions& options, Deadline deadline) {
  const PeerIdentity self{.kind = ConnectionKind::Store,
                          .rank = options.rank,
                          .world_size = options.world_size,
                          .pid = static_cast<std::uint32_t>(::getpid()),
                          .job = identity_hash(options.job_id)};
  const ClientHandshake handshake(self, options.job_secret);
  send_all(socket, handshake.hello());
  const auto challenge = receive<kChallengeBytes>(socket, deadline);
  try {
    send_all(socket, handshake.answer(challenge));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Unauthorized) ::send(socket, kNoProof.data(), kNoProof.size(), MSG_NOSIGNAL);
    throw;
  }
  try {
    handshake.finish(receive<kVerdictBytes>(socket, deadline));
  } catch (const Failed&) {
    say_goodbye(socket);
    throw;
  }
}

/// What a pass over all addresses of the host came to, where none let us in.
struct Pass {
  bool hung_up = false;       // one of them, during the handshake
  bool none_listens = false;  // at any of them
};

std::optional<Socket> try_all(const TcpStoreOptions& options, Deadline deadline, Attempts& attempts, Pass& pass) {
  std::optional<Error> refusal;
  std::string error;
  const auto endpoints = resolve_within(options.host, options.port, deadline, error);
  if (endpoints.empty()) attempts.add(options.host, error);
  pass = {.hung_up = false, .none_listens = !endpoints.empty()};
  for (const Endpoint& endpoint : endpoints) {
    try {
      Socket socket = connect_one(endpoint, deadline.earlier_of(Deadline::after(kConnectLimit)));
      authenticate(socket.get(), options, deadline);
      return socket;
    } catch (const Failed& failed) {
      attempts.add(endpoint, failed, options.rank);
      pass.hung_up = pass.hung_up || failed.hung_up;
      pass.none_listens = pass.none_listens && failed.error_number == ECONNREFUSED;
    } catch (const Error& refused) {
      if (refused.code() == ErrorCode::System) throw;
      if (!refusal) refusal = Error(refused.code(), "store at ", endpoint.text(), ": ", refused.what());
    }
  }
  if (refusal) throw Error(*refusal);
  return std::nullopt;
}

}  // namespace

Socket connect_to_store(const TcpStoreOptions& options, Deadline deadline, bool was_there) {
  const auto start = Deadline::Clock::now();
  Attempts attempts;
  milliseconds backoff = kFirstBackoff;
  int hang_ups = 0;
  bool reported = false;
  for (;;) {
    Pass pass;
    if (auto socket = try_all(options, deadline, attempts, pass)) return std::move(*socket);
    if (was_there && pass.none_listens)
      throw Error(ErrorCode::PeerLost, "lost the store at ", host_and_port(options.host, options.port),
                  ", which had answered; attempts: ", attempts.text());
    hang_ups = pass.hung_up ? hang_ups + 1 : 0;
    if (hang_ups >= kHangUpsBelieved) {
      throw Error(ErrorCode::Protocol, "the store at ", host_and_port(options.host, options.port),
                  " accepts connections but does not speak our handshake; attempts: ", attempts.text(),
                  ". Is that port really a Tutti store of this version?");
    }
    const milliseconds left = deadline.remaining();
    const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
    if (left.count() == 0)
      throw Error(ErrorCode::Timeout, "cannot reach the store at ", host_and_port(options.host, options.port),
                  format(" within %.3f s; attempts: ", waited.count()), attempts.text(),
                  ". Is its owner (rank 0 or the launcher) running, and are MASTER_ADDR and "
                  "MASTER_PORT right?");
    if (!reported && waited >= kReportAfter) {
      reported = true;
      log(LogLevel::Warn, options.rank < 0 ? "" : "rank " + std::to_string(options.rank) + " ",
          "still tries to reach the store at " + host_and_port(options.host, options.port) +
              "; attempts: " + attempts.text());
    }
    std::this_thread::sleep_for(std::min(backoff, left));
    backoff = std::min(backoff * 2, kLongestBackoff);
  }
}

StoreClient::StoreClient(std::string server, Socket connected)
    : server_(std::move(server)), socket_(std::move(connected)), in_(kSmallBuffer) {}

void StoreClient::lost(const std::string& why) const {
  throw Error(ErrorCode::PeerLost, "the store server at ", server_, " is gone (", why, ")");
}

std::optional<StoreReply> StoreClient::call(StoreOp op, const StoreBody& body, Deadline deadline) {
  while (!send_some())  // an earlier call's bytes; ours are not added while they are stuck
    if (!poll_until(socket_.get(), POLLOUT, deadline)) return std::nullopt;
  const std::uint32_t id = ++last_id_;
  append_store_message(out_, static_cast<std::uint8_t>(op), id, body);
  auto reply = await_reply(id, deadline);
  if (reply || !waits(op)) return reply;
  append_store_message(out_, static_cast<std::uint8_t>(StoreOp::EndWaits), ++last_id_, {});
  return await_reply(id, Deadline::after(kTimeoutReplyGrace));
}

std::optional<StoreReply> StoreClient::await_reply(std::uint32_t id, Deadline until) {
  while (true) {
    send_some();
    if (auto reply = take_reply(id)) return reply;
    const short events = static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
    if (!poll_until(socket_.get(), events, until)) return std::nullopt;
    while (receive_some()) {
    }
  }
}

void StoreClient::say_goodbye() noexcept {
  try {
    if (!out_.empty()) return;
    append_store_message(out_, static_cast<std::uint8_t>(StoreOp::Goodbye), ++last_id_, {});
    send_some();
  } catch (const std::exception&) {
    // The server is gone, or memory is short: the goodbye is lost.
  }
}

/// True when nothing is left to send.
bool StoreClient::send_some() {
  while (sent_ < out_.size()) {
    const ssize_t count = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      lost(errno_text(errno));
    }
  }
  out_.clear();
  if (out_.capacity() > kSmallBuffer) out_.shrink_to_fit();
  sent_ = 0;
  return true;
}

/// True if there may be more to receive at once.
bool StoreClient::receive_some() {
  if (have_ == in_.size()) {
    if (have_ > kStoreHeaderBytes + kMaxStoreBodyBytes) return false;
    in_.resize(in_.size() * 2);
  }
  const std::size_t space = in_.size() - have_;
  const ssize_t count = ::recv(socket_.get(), in_.data() + have_, space, 0);
  if (count > 0) {
    have_ += static_cast<std::size_t>(count);
    return static_cast<std::size_t>(count) == space;
  }
  if (count == 0) lost("it closed the connection");
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lost(errno_text(errno));
  return errno == EINTR;
}

/// Replies to calls that were given up come first and are dropped.
std::optional<StoreReply> StoreClient::take_reply(std::uint32_t id) {
  while (have_ >= kStoreHeaderBytes) {
    const StoreHeader header = decode_store_header(std::span(in_).first<kStoreHeaderBytes>());
    if (header.body_bytes > kMaxStoreBodyBytes) {
      throw Error(ErrorCode::Protocol, "the store server at ", server_, " announced a reply of ", header.body_bytes,
                  " bytes");
    }
    const std::size_t message_bytes = kStoreHeaderBytes + header.body_bytes;
    if (have_ < message_bytes) return std::nullopt;
    const StoreBody body = decode_store_body(std::span(in_).subspan(kStoreHeaderBytes, header.body_bytes));
    std::optional<StoreReply> reply;
    if (header.id == id) {
      reply =
          StoreReply{{body.number, {body.strings.begin(), body.strings.end()}}, static_cast<StoreStatus>(header.code)};
    }
    have_ -= message_bytes;
    std::memmove(in_.data(), in_.data() + message_bytes, have_);
    if (have_ == 0 && in_.size() > kSmallBuffer) in_ = std::vector<std::byte>(kSmallBuffer);
    if (reply) return reply;
  }
  return std::nullopt;
}

}  // namespace tutti::comm
