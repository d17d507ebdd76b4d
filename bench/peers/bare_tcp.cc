// What a bare loop of send(2) and recv(2) takes on the loopback interface: no frames, checks, deadlines or failures,
// all data through rank 0. A yardstick of the machine, not a library: what is much faster than this is mismeasured.
// bare_tcp SIZE OPERATION BYTES [fresh] forks its ranks. Built and run by the compare command. It has all_reduce
// (float32, sum), broadcast, barrier and ping_pong.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "timing.h"

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// Rank 0's connections to all others, by rank; elsewhere the one to rank 0 stands first.
class Star {
 public:
  Star(int rank, int size, int listener, const sockaddr_in& address) : rank_(rank), size_(size), peers_(size, -1) {
    cpu_set_t processors;
    crowded_ = sched_getaffinity(0, sizeof processors, &processors) != 0 || size > CPU_COUNT(&processors);
    if (rank == 0) {
      for (int i = 1; i < size; ++i) {
        const int peer = ::accept(listener, nullptr, nullptr);
        std::int32_t index = 0;
        if (peer < 0 || ::recv(peer, &index, sizeof index, MSG_WAITALL) != sizeof index) fail("accept");
        peers_[static_cast<std::size_t>(index)] = without_delay(peer);
      }
    } else {
      peers_[0] = without_delay(::socket(AF_INET, SOCK_STREAM, 0));
      if (::connect(peers_[0], reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
      const std::int32_t index = rank;
      send(0, &index, sizeof index);
    }
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  void send(int peer, const void* data, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t sent = ::send(peers_[static_cast<std::size_t>(peer)], static_cast<const char*>(data) + done,
                                  bytes - done, MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) fail("send");
      done += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    }
  }

  void receive(int peer, void* data, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got =
          ::recv(peers_[static_cast<std::size_t>(peer)], static_cast<char*>(data) + done, bytes - done, MSG_DONTWAIT);
      if (got == 0) fail("recv: closed");
      if (got < 0 && errno != EAGAIN && errno != EINTR) fail("recv");
      if (got < 0 && crowded_) ::sched_yield();
      done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
  }

  template <typename T, typename Add>
  void all_reduce(std::vector<T>& data, std::vector<T>& incoming, const Add& add) const {
    const std::size_t bytes = data.size() * sizeof(T);
    if (rank_ != 0) send(0, data.data(), bytes);
    for (int peer = 1; peer < size_ && rank_ == 0; ++peer) {
      receive(peer, incoming.data(), bytes);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = add(data[i], incoming[i]);
    }
    broadcast(data.data(), bytes);
  }

  void broadcast(void* data, std::size_t bytes) const {
    if (rank_ != 0) receive(0, data, bytes);
    for (int peer = 1; peer < size_ && rank_ == 0; ++peer) send(peer, data, bytes);
  }

  void ping_pong(void* data, std::size_t bytes) const {
    if (rank_ > 1) return;
    if (rank_ == 0) send(1, data, bytes);
    receive(1 - rank_, data, bytes);
    if (rank_ == 1) send(0, data, bytes);
  }

 private:
  static int without_delay(int socket) {
    const int yes = 1;
    if (socket < 0 || ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) fail("socket");
    return socket;
  }

  int rank_;
  int size_;
  bool crowded_ = false;
  std::vector<int> peers_;
};

template <typename T>
void measure(const Star& star, const std::string& name, std::size_t bytes, bool fresh) {
  std::vector<T> data(peers::elements<T>(bytes, star.size(), false), 1), incoming(data.size());
  const std::size_t length = data.size() * sizeof(T);
  std::vector<char> nothing(1), heard(1);
  const auto barrier = [&] { star.all_reduce(nothing, heard, [](char first, char) { return first; }); };
  peers::Rank rank;
  rank.rank = star.rank();
  rank.size = star.size();
  if (name == "all_reduce") {
    rank.operation = [&] { star.all_reduce(data, incoming, [](T a, T b) { return static_cast<T>(a + b); }); };
  } else if (name == "broadcast") {
    rank.operation = [&] { star.broadcast(data.data(), length); };
  } else if (name == "ping_pong") {
    rank.operation = [&] { star.ping_pong(data.data(), length); };
  } else if (name == "barrier") {
    rank.operation = barrier;
  } else {
    peers::refuse("bare_tcp", name);
  }
  rank.set_up = peers::refresh(data, fresh);
  rank.barrier = barrier;
  rank.maximum = [&](std::vector<double>& times) {
    std::vector<double> theirs(times.size());
    star.all_reduce(times, theirs, [](double a, double b) { return std::max(a, b); });
  };
  rank.from_rank_zero = [&](int value) {
    star.broadcast(&value, sizeof value);
    return value;
  };
  peers::print_result(rank, name, bytes, peers::median_us(rank, bytes));
}

}  // namespace

int main(int argc, char** argv) {
  const auto data = peers::data_asked_for(argc, argv, 3);
  const int size = argc > 1 ? std::atoi(argv[1]) : 0;
  if (!data || size < 2) {
    std::fprintf(stderr, "usage: bare_tcp SIZE OPERATION BYTES [DTYPE] [fresh], of 2 ranks or more\n");
    return 2;
  }
  sockaddr_in address{};
  socklen_t length = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener, size) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("listen");
  int rank = 0;
  for (int i = 1; i < size && rank == 0; ++i) {
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) rank = i;
  }
  const bool known = peers::with_elements_of(data->dtype, [&]<typename T>(T) {
    measure<T>(Star(rank, size, listener, address), argv[2], std::strtoull(argv[3], nullptr, 10), data->is_fresh);
  });
  int status = 0, failed = known ? 0 : 2;
  while (rank == 0 && ::wait(&status) > 0) failed |= status != 0;
  return failed;
}
