// async_wait(work, token): the completion of a tutti::comm::Work as an Asio operation, for callbacks, futures and
// coroutines alike. The handler runs where its executor says, never on a thread of Tutti's; its one argument is the
// operation's error, or null. Asio as the program has it: Tutti's own copy goes by another name.
#pragma once

#include <tutti/comm/work.h>

#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <exception>
#include <memory>
#include <utility>

template <typename Token>
auto async_wait(const tutti::comm::Work& work, Token&& token) {
  const auto initiate = [](auto handler, const tutti::comm::Work& pending) {
    // The guard keeps io_context::run() going; std::function wants what it holds to be copyable.
    auto guard = asio::make_work_guard(asio::get_associated_executor(handler));
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    pending.on_completion([guard, shared, pending] {
      asio::post(guard.get_executor(), [shared, pending] { std::move (*shared)(pending.exception()); });
    });
  };
  return asio::async_initiate<Token, void(std::exception_ptr)>(initiate, token, work);
}
