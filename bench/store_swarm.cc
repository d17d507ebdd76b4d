#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <tutti/bench/store_swarm.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/store_client.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

namespace tutti::bench {
namespace {

using namespace comm;

constexpr std::size_t kReadBytes = 64 * 1024;

std::string request(StoreOp op, std::uint32_t id, const StoreBody& body) {
  std::string message;
  append_store_message(message, static_cast<std::uint8_t>(op), id, body);
  return message;
}

/// `depth` requests of the four common kinds, on keys that belong to client number `number`.
std::string mixed_batch(int number, int depth) {
  const std::string key = "client/" + std::to_string(number);
  const std::string counter = key + "/n";
  const StoreRequest kinds[] = {{StoreOp::Set, {0, {key, "0123456789abcdef"}}},
                                {StoreOp::Get, {0, {"shared"}}},
                                {StoreOp::Add, {1, {counter}}},
                                {StoreOp::Check, {0, {"shared"}}}};
  std::string batch;
  for (int i = 0; i < depth; ++i) {
    const auto& [op, body] = kinds[(number + i) % 4];
    batch += request(op, static_cast<std::uint32_t>(i), body);
  }
  return batch;
}

}  // namespace

StoreSwarm::StoreSwarm(const TcpStoreOptions& options, int clients, Deadline deadline) {
  clients_.reserve(static_cast<std::size_t>(clients));
  for (int i = 0; i < clients; ++i) clients_.push_back(Client{connect_to_store(options, deadline), {}});
}

void StoreSwarm::send_all(Client& client, const std::string& bytes, Deadline deadline) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(client.socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count > 0) sent += static_cast<std::size_t>(count);
    if (count >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) throw_errno("send to the store", errno);
    if (!poll_until(client.socket.get(), POLLOUT, deadline)) throw Error(ErrorCode::Timeout, "the store takes nothing");
  }
}

/// True if bytes came.
bool StoreSwarm::receive_some(Client& client) {
  std::array<char, kReadBytes> bytes;
  const ssize_t count = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
  if (count > 0) client.in.insert(client.in.end(), bytes.begin(), bytes.begin() + count);
  if (count == 0) throw Error(ErrorCode::PeerLost, "the store closed a connection");
  if (count < 0 && errno != EAGAIN && errno != EINTR) throw_errno("receive from the store", errno);
  return count > 0;
}

bool StoreSwarm::take_reply(Client& client, std::int64_t& number) {
  const auto bytes = std::as_bytes(std::span(client.in));
  if (bytes.size() < kStoreHeaderBytes) return false;
  const StoreHeader header = decode_store_header(bytes.first<kStoreHeaderBytes>());
  const std::size_t message_bytes = kStoreHeaderBytes + header.body_bytes;
  if (bytes.size() < message_bytes) return false;
  const StoreBody body = decode_store_body(bytes.subspan(kStoreHeaderBytes, header.body_bytes));
  if (static_cast<StoreStatus>(header.code) != StoreStatus::Ok) {
    const std::string why = body.strings.empty() ? "no text" : std::string(body.strings[0]);
    throw Error(ErrorCode::Protocol, "the store answered with status " + std::to_string(header.code) + ": " + why);
  }
  number = body.number;
  client.in.erase(client.in.begin(), client.in.begin() + static_cast<std::ptrdiff_t>(message_bytes));
  return true;
}

std::int64_t StoreSwarm::receive_one(Client& client, Deadline deadline) {
  std::int64_t number = 0;
  while (!take_reply(client, number)) {
    if (receive_some(client)) continue;
    if (!poll_until(client.socket.get(), POLLIN, deadline))
      throw Error(ErrorCode::Timeout, "the store does not answer");
  }
  return number;
}

void StoreSwarm::barrier(const std::string& name, std::int64_t total, Deadline deadline) {
  const std::string done = name + "/done";
  const std::string arrive = request(StoreOp::Add, 1, {1, {name}}) + request(StoreOp::Wait, 2, {0, {done}});
  for (Client& client : clients_) send_all(client, arrive, deadline);
  for (Client& client : clients_) {
    if (receive_one(client, deadline) != total) continue;
    send_all(client, request(StoreOp::Set, 3, {0, {done, ""}}), deadline);
    receive_one(client, deadline);  // the wait's and the set's, in either order
  }
  for (Client& client : clients_) receive_one(client, deadline);
}

/// Sends what the connection takes of this turn's requests.
void StoreSwarm::push(Client& client) {
  const std::size_t left = client.batch.size() - client.sent;
  if (left == 0) return;
  const ssize_t count = ::send(client.socket.get(), client.batch.data() + client.sent, left, MSG_NOSIGNAL);
  if (count > 0) client.sent += static_cast<std::size_t>(count);
  if (count < 0 && errno != EAGAIN && errno != EINTR) throw_errno("send to the store", errno);
}

std::uint64_t StoreSwarm::hammer(int depth, std::chrono::milliseconds duration) {
  const Socket poller(::epoll_create1(EPOLL_CLOEXEC));
  if (poller.get() < 0) throw_errno("epoll_create1", errno);
  send_all(clients_.front(), request(StoreOp::Set, 0, {0, {"shared", "value"}}),
           Deadline::after(std::chrono::seconds(30)));
  receive_one(clients_.front(), Deadline::after(std::chrono::seconds(30)));
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].batch = mixed_batch(static_cast<int>(i), depth);
    clients_[i].sent = 0;
    clients_[i].unanswered = depth;
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.u64 = i}};
    if (::epoll_ctl(poller.get(), EPOLL_CTL_ADD, clients_[i].socket.get(), &event) != 0)
      throw_errno("epoll_ctl", errno);
  }
  const Deadline end = Deadline::after(duration);
  std::uint64_t answered = 0;
  std::array<epoll_event, 256> events;
  // After `duration` no new turn begins; those under way are finished.
  std::size_t busy = clients_.size();
  while (busy > 0) {
    const int ready = ::epoll_wait(poller.get(), events.data(), static_cast<int>(events.size()), 30'000);
    if (ready < 0 && errno != EINTR) throw_errno("epoll_wait", errno);
    if (ready == 0) throw Error(ErrorCode::Timeout, "the store has not answered for 30 s");
    const bool over = end.expired();
    for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(ready, 0)))) {
      Client& client = clients_[event.data.u64];
      push(client);
      while (receive_some(client))
        for (std::int64_t number; take_reply(client, number); ++answered) --client.unanswered;
      if (client.unanswered > 0 || client.batch.empty()) continue;
      if (over) {
        client.batch.clear();
        --busy;
        continue;
      }
      client.sent = 0;
      client.unanswered = depth;
      push(client);
    }
  }
  for (Client& client : clients_) ::epoll_ctl(poller.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
  return answered;
}

void StoreSwarm::send_halves() {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  const std::string whole = request(StoreOp::Set, 1, {0, {"half", std::string(1000, 'v')}});
  for (Client& client : clients_) send_all(client, whole.substr(0, whole.size() / 2), deadline);
}

void StoreSwarm::ask_without_reading(const std::string& key, int times) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  for (Client& client : clients_) {
    for (int i = 0; i < times; ++i) {
      send_all(client, request(StoreOp::Get, static_cast<std::uint32_t>(i), {0, {key}}), deadline);
    }
  }
}

std::vector<Socket> connect_silently(std::uint16_t port, int count) {
  std::string error;
  const std::vector<Endpoint> endpoints = resolve("127.0.0.1", port, ResolveFor::Connecting, error);
  if (endpoints.empty()) throw Error(ErrorCode::System, error);
  std::vector<Socket> sockets;
  for (int i = 0; i < count; ++i) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), endpoints[0].address(), endpoints[0].length) != 0) throw_errno("connect", errno);
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

RoundTrips time_round_trips(Store& store, int rounds) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Deadline::Clock::now();
    store.set("bystander", "0123456789abcdef", Deadline::after(std::chrono::seconds(30)));
    seconds.push_back(std::chrono::duration<double>(Deadline::Clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds[seconds.size() * 99 / 100]};
}

}  // namespace tutti::bench
