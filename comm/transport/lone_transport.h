// LoneTransport: of a group of one rank, which exchanges no frames.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/transport.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tutti::comm {

class LoneTransport : public Transport {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  Link& collective(int peer) override { return no_link(peer); }
  Link& messages(int peer) override { return no_link(peer); }
  Link& answers(int peer) override { return no_link(peer); }
  bool service() override { return false; }

  void wait(std::span<Link* const> /*links*/, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, timeout, [this, before = wakes_] { return wakes_ != before; });
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    ++wakes_;
    woken_.notify_all();
  }
  void close() override { wake(); }

  std::string describe(int peer) const override { return "rank " + std::to_string(peer) + " (this process)"; }
  std::string_view name() const override { return "inproc"; }
  bool oversubscribed() const override { return false; }

 private:
  [[noreturn]] static Link& no_link(int peer) { refuse("a group of one rank has no link to rank ", peer); }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::uint64_t wakes_ = 0;
};

}  // namespace tutti::comm
