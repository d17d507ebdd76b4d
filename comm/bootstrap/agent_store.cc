#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/agent_store.h>
#include <tutti/comm/store/torch/torch_request.h>
#include <tutti/comm/wire/little_endian.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>

#include <cerrno>
#include <span>

namespace tutti::comm {
namespace {

constexpr std::chrono::seconds kPatience(10);
constexpr std::size_t kLongestAnswer = 16384;
constexpr char kAbsent[] = "-";  // no announcement is this

std::string query(TorchQuery code, std::initializer_list<std::string_view> texts) {
  std::string bytes;
  append_number(bytes, static_cast<std::uint64_t>(TorchQuery::Validate), 1);
  append_number(bytes, kTorchMagic, 4);
  append_number(bytes, static_cast<std::uint64_t>(code), 1);
  for (const std::string_view text : texts) append_bytes(bytes, text);
  return bytes;
}

Socket connect_to(const Endpoint& endpoint, Deadline deadline) {
  Socket socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) throw_errno("open a socket", errno);
  if (const int error_number = connect_until(socket, endpoint, deadline); error_number != 0)
    throw_errno("connect", error_number);
  return socket;
}

/// Repeats `call`, a send(2) or recv(2), until it has done something.
template <typename Call>
std::size_t when_ready(const Socket& socket, short events, Deadline deadline, Call call) {
  for (;;) {
    const ssize_t count = call();
    if (count > 0) return static_cast<std::size_t>(count);
    if (count == 0) throw Error(ErrorCode::Protocol, "it closed the connection; is it of PyTorch 2.1 or later?");
    if (errno != EAGAIN && errno != EINTR) throw_errno("talk to it", errno);
    if (!poll_until(socket.get(), events, deadline)) throw_errno("talk to it", ETIMEDOUT);
  }
}

std::string receive(const Socket& socket, std::size_t nbytes, Deadline deadline) {
  std::string bytes(nbytes, '\0');
  for (std::size_t have = 0; have < nbytes;)
    have += when_ready(socket, POLLIN, deadline,
                       [&] { return ::recv(socket.get(), bytes.data() + have, nbytes - have, 0); });
  return bytes;
}

}  // namespace

AgentStore::AgentStore(const World& world)
    : host_(world.master_addr), port_(world.master_port), key_(world.agent_key), secret_(world.job_secret) {}

std::string AgentStore::where() const {
  return "torchrun's store " + host_and_port(host_, port_) + ", key " + printable(key_, 200);
}

std::string AgentStore::advice() const {
  return "Did rank 0 start? Or set TUTTI_STORE, or unset TORCHELASTIC_USE_AGENT_STORE and name a free MASTER_PORT";
}

/// The answer to `query`, a value.
std::string AgentStore::exchange(const std::string& query) const {
  const Deadline deadline = Deadline::after(kPatience);
  std::string error;
  for (const Endpoint& endpoint : resolve_within(host_, port_, deadline, error)) {
    try {
      const Socket socket = connect_to(endpoint, deadline);
      for (std::size_t sent = 0; sent < query.size();)
        sent += when_ready(socket, POLLOUT, deadline, [&] {
          return ::send(socket.get(), query.data() + sent, query.size() - sent, MSG_NOSIGNAL);
        });
      const std::string length = receive(socket, 8, deadline);
      const auto nbytes = get_little_endian<std::uint64_t>(std::as_bytes(std::span(length)).data());
      if (nbytes > kLongestAnswer)
        throw Error(ErrorCode::Protocol, "it answers with " + std::to_string(nbytes) + " bytes");
      return receive(socket, nbytes, deadline);
    } catch (const Error& failed) {
      error = endpoint.text() + ": " + failed.what();
    }
  }
  throw Error(ErrorCode::System, "cannot use " + where() + ", by which the ranks are to meet: " + error);
}

std::string AgentStore::compare_set(const std::string& expected, const std::string& desired) const {
  return exchange(query(TorchQuery::CompareSet, {key_, expected, desired}));
}

/// Not by SET: it has no answer, so this rank would not know whether the value is there.
void AgentStore::publish(const Announcement& announcement) {
  const std::string text = encode_announcement(announcement, secret_, ';');
  std::string present = compare_set("", text);
  while (present != text) present = compare_set(present, text);
}

std::optional<AnnouncementBoard::Found> AgentStore::look() const {
  const std::string text = compare_set(kAbsent, kAbsent);  // changes nothing; the value, or kAbsent if there is none
  if (text.empty() || text == kAbsent) return std::nullopt;
  Found found;
  found.reading = decode_announcement(text, secret_, found.announcement, ';');
  if (found.reading == Reading::Foreign) found.begins_with = quote_bytes(std::as_bytes(std::span(text)));
  return found;
}

void AgentStore::withdraw(const std::string& nonce) noexcept {
  try {
    const std::string text = compare_set(kAbsent, kAbsent);
    Announcement found;
    if (decode_announcement(text, secret_, found, ';') == Reading::Whole && found.nonce == nonce) compare_set(text, "");
  } catch (const std::exception&) {  // it stays, and leads nowhere
  }
}

}  // namespace tutti::comm
