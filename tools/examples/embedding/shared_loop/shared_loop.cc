// A program that had its own event loop before it met Tutti: a service that adds up what its clients send, one
// io_context, one thread. Now several of them run, and at the end each knows the sum of all. Collectives and messages
// are awaited on the same loop, and block it at no time: the service of rank 0 answers its client, thousands of times,
// while a barrier is under way that the other ranks join only when the client has got all answers.
#include <tutti/comm/process_group.h>

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "work_on_loop.h"

namespace {

using asio::use_awaitable;
using asio::ip::tcp;
namespace comm = tutti::comm;

constexpr std::int64_t kRequests = 2000;

std::int64_t request(int rank, std::int64_t i) { return (rank + 1) * (i % 97); }

/// The service as it was: what comes in is added, and the new total goes back.
asio::awaitable<void> serve(tcp::acceptor& acceptor, std::int64_t& total) {
  tcp::socket client = co_await acceptor.async_accept(use_awaitable);
  for (std::int64_t i = 0; i < kRequests; ++i) {
    std::int64_t number = 0;
    co_await asio::async_read(client, asio::buffer(&number, sizeof number), use_awaitable);
    total += number;
    co_await asio::async_write(client, asio::buffer(&total, sizeof total), use_awaitable);
  }
}

/// A client of it, on the same loop.
asio::awaitable<void> ask(tcp::endpoint service, int rank) {
  tcp::socket socket(co_await asio::this_coro::executor);
  co_await socket.async_connect(service, use_awaitable);
  for (std::int64_t i = 0; i < kRequests; ++i) {
    const std::int64_t number = request(rank, i);
    std::int64_t total = 0;
    co_await asio::async_write(socket, asio::buffer(&number, sizeof number), use_awaitable);
    co_await asio::async_read(socket, asio::buffer(&total, sizeof total), use_awaitable);
  }
}

/// What is new: one task that speaks with the other ranks. It alone uses the group.
asio::awaitable<void> join(comm::ProcessGroup& group, tcp::endpoint service, std::int64_t& total) {
  std::vector<std::uint8_t> go(1);
  comm::Work barrier;
  if (group.rank() == 0) barrier = group.barrier_async();
  co_await ask(service, group.rank());
  for (int other = 1; other < group.world_size(); ++other)
    if (group.rank() == 0) co_await async_wait(group.isend(comm::buffer(std::span(go)), other), use_awaitable);
  if (group.rank() > 0) {
    co_await async_wait(group.irecv(comm::buffer(std::span(go)), 0), use_awaitable);
    barrier = group.barrier_async();
  }
  co_await async_wait(barrier, use_awaitable);
  co_await async_wait(group.all_reduce_async(comm::buffer(std::span(&total, 1))), use_awaitable);
}

void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

}  // namespace

int main() {
  const auto group = comm::ProcessGroup::connect(comm::World::detect());
  asio::io_context io(1);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::int64_t total = 0;
  asio::co_spawn(io, serve(acceptor, total), rethrow);
  asio::co_spawn(io, join(*group, acceptor.local_endpoint(), total), rethrow);
  io.run();
  group->shutdown();

  std::int64_t expected = 0;
  for (int rank = 0; rank < group->world_size(); ++rank)
    for (std::int64_t i = 0; i < kRequests; ++i) expected += request(rank, i);
  if (total != expected) {
    std::fprintf(stderr, "rank %d: %lld, but a serial run gives %lld\n", group->rank(), static_cast<long long>(total),
                 static_cast<long long>(expected));
    return 1;
  }
  if (group->rank() == 0)
    std::printf("%d ranks: %lld, equal to the serial run\n", group->world_size(), static_cast<long long>(total));
}
