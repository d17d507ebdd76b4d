// Ranks whose messages pass the referee: every call becomes a request over the socket, and the answer ends it.
//
// Requests that do not block (isend, irecv) copy their data at once, and remember what the memory held: whoever changes
// it before wait() is told so. Memory that an irecv is to fill is poisoned until wait() brings the message.
#pragma once

#include <tutti/tools/labs/driver/link.h>
#include <tutti/tools/labs/lab.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace tutti::labs::driver {

inline void poison(void* data, std::size_t bytes, std::uint32_t word) {
  auto* next = static_cast<unsigned char*>(data);
  for (std::size_t at = 0; at < bytes; at += sizeof word) {
    std::memcpy(next + at, &word, std::min(sizeof word, bytes - at));
  }
}

/// What the operator and the trace have to tell the referee besides.
struct Tally {
  std::uint64_t combined_bytes = 0;
};

/// Sees what changes the memory of a traced run; the driver's Tracer.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before_request() = 0;
  virtual void received(const void* data, std::size_t bytes) = 0;
};

class RefereedRanks : public Ranks {
 public:
  RefereedRanks(int rank, int world_size, Tally& tally, Watcher* watcher)
      : Ranks(rank, world_size), tally_(tally), watcher_(watcher) {}

 private:
  struct Pending {
    void* data = nullptr;
    std::vector<unsigned char> expected{};  // what the memory holds unless somebody changes it
    bool is_receive = false;
    std::size_t element_bytes = 1;
  };

  protocol::Request request(protocol::Verb verb) {
    if (watcher_ != nullptr) watcher_->before_request();
    protocol::Request made;
    made.verb = verb;
    made.combined_bytes = std::exchange(tally_.combined_bytes, 0);
    return made;
  }

  static std::vector<unsigned char> copy_of(const void* data, std::size_t bytes) {
    const auto* first = static_cast<const unsigned char*>(data);
    return bytes == 0 ? std::vector<unsigned char>{} : std::vector<unsigned char>(first, first + bytes);
  }

  /// For a message of `bytes` bytes; one that is sent is the request's payload.
  protocol::Request request(protocol::Verb verb, int peer, int tag, std::size_t bytes, std::size_t element_bytes) {
    protocol::Request made = request(verb);
    made.peer = peer;
    made.tag = tag;
    made.bytes = bytes;
    made.element_bytes = static_cast<std::uint32_t>(element_bytes);
    const bool is_send = verb == protocol::Verb::Send || verb == protocol::Verb::StartSend;
    made.payload_bytes = is_send ? bytes : 0;
    return made;
  }

  void do_send(ConstMemory data, int destination, int tag) override {
    const std::vector<unsigned char> message = copy_of(data.data, data.bytes);
    ask(request(protocol::Verb::Send, destination, tag, data.bytes, data.element_bytes), message.data());
  }

  int do_recv(Memory data, int source, int tag) override {
    const protocol::Reply reply = ask(request(protocol::Verb::Receive, source, tag, data.bytes, data.element_bytes));
    return take(reply, data.data, data.bytes);
  }

  int take(const protocol::Reply& reply, void* data, std::size_t bytes) {
    std::vector<unsigned char> message(reply.payload_bytes);
    read_all(message.data(), message.size());
    if (!message.empty()) std::memcpy(data, message.data(), std::min(bytes, message.size()));
    if (watcher_ != nullptr) watcher_->received(data, bytes);
    return reply.source;
  }

  /// Begins `made`, whose memory must stay as it is until wait().
  std::uint64_t begin(protocol::Request made, Pending pending) {
    made.handle = ++last_handle_;
    post(made, pending.expected.data());
    pending_.emplace(last_handle_, std::move(pending));
    return last_handle_;
  }

  std::uint64_t do_isend(ConstMemory data, int destination, int tag) override {
    Pending pending{const_cast<void*>(data.data), copy_of(data.data, data.bytes), false, data.element_bytes};
    return begin(request(protocol::Verb::StartSend, destination, tag, data.bytes, data.element_bytes),
                 std::move(pending));
  }

  std::uint64_t do_irecv(Memory data, int source, int tag) override {
    poison(data.data, data.bytes, protocol::kPoisonPending);
    Pending pending{data.data, copy_of(data.data, data.bytes), true, data.element_bytes};
    return begin(request(protocol::Verb::StartReceive, source, tag, data.bytes, data.element_bytes),
                 std::move(pending));
  }

  int do_sendrecv(ConstMemory outgoing, int destination, Memory incoming, int source, int send_tag,
                  int recv_tag) override {
    const std::uint64_t receive = do_irecv(incoming, source, recv_tag);
    const std::uint64_t send = do_isend(outgoing, destination, send_tag);
    const int from = do_wait(receive);
    do_wait(send);
    return from;
  }

  int do_wait(std::uint64_t handle) override {
    const auto found = pending_.find(handle);
    if (found == pending_.end()) return kAnySource;
    const Pending& pending = found->second;
    const std::size_t bytes = pending.expected.size();
    if (bytes > 0 && std::memcmp(pending.data, pending.expected.data(), bytes) != 0) report_change(handle, pending);
    protocol::Request made = request(protocol::Verb::Wait);
    made.handle = handle;
    const protocol::Reply reply = ask(made);
    int source = reply.source;
    if (pending.is_receive) source = take(reply, pending.data, bytes);
    pending_.erase(handle);
    return source;
  }

  void report_change(std::uint64_t handle, const Pending& pending) {
    protocol::Request made = request(protocol::Verb::Changed);
    made.handle = handle;
    const auto* now = static_cast<const unsigned char*>(pending.data);
    const auto first = std::mismatch(pending.expected.begin(), pending.expected.end(), now).first;
    made.bytes = static_cast<std::uint64_t>(first - pending.expected.begin()) / pending.element_bytes;  // which element
    post(made);
  }

  bool is_complete(std::uint64_t handle) override {
    protocol::Request made = request(protocol::Verb::Test);
    made.handle = handle;
    return ask(made).flag != 0;
  }

  void do_forget(std::uint64_t handle) noexcept override {
    protocol::Request made;
    made.verb = protocol::Verb::Forget;
    made.handle = handle;
    post(made);
    pending_.erase(handle);
  }

  double do_seconds() override { return ask(request(protocol::Verb::Now)).seconds; }

  Tally& tally_;
  Watcher* watcher_;
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, Pending> pending_;
};

}  // namespace tutti::labs::driver
