// The main program of a submission under the grader: takes calls from the referee, runs the submission's function with
// them, and gives the buffers back. Compiled together with the submission, and started in the sandbox, which is in
// force before its first instruction.

#include <malloc.h>
#include <tutti/tools/labs/driver/faults.h>
#include <tutti/tools/labs/driver/memory.h>
#include <tutti/tools/labs/driver/operators.h>
#include <tutti/tools/labs/driver/refereed_ranks.h>
#include <tutti/tools/labs/lab.h>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace tutti::labs::driver {
namespace {

void prepare() {
  install_handlers();
  mallopt(M_PERTURB, protocol::kHeapFill ^ 0xFF);
}

// Before the constructors of any static object.
__attribute__((section(".preinit_array"), used)) void (*const prepare_first)() = prepare;

/// The buffers of all calls, and what the referee knows of those of the call in progress.
class Work : public Watcher {
 public:
  Work(const protocol::Call& call, Tally& tally) : call_(call), tally_(tally) {
    const std::size_t count = std::size_t{call.calls} * call.buffers;
    for (std::size_t i = 0; i < count; ++i) {
      protocol::BufferHeader header;
      read_all(&header, sizeof header);
      buffers_.push_back(std::make_unique<GuardedBuffer>(header.bytes, header.is_const != 0));
      read_all(buffers_.back()->data(), header.bytes);
      buffers_.back()->lock();
      pointers_.push_back(buffers_.back().get());
    }
    known_buffers = {pointers_.data(), pointers_.size(), call.buffers == 0 ? 1 : call.buffers};
  }
  ~Work() override { known_buffers = {}; }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void begin(std::size_t number, detail::Call& call) {
    current_call = static_cast<int>(number);
    first_ = number * call_.buffers;
    told_.assign(call_.buffers, {});
    call.buffers.clear();
    for (std::size_t i = 0; i < call_.buffers; ++i) {
      const GuardedBuffer& buffer = *buffers_[first_ + i];
      call.buffers.push_back({buffer.data(), buffer.bytes(), 1});
      if (call_.is_traced != 0) told_[i].assign(buffer.data(), buffer.data() + buffer.bytes());
    }
  }

  std::vector<unsigned char> contents() const {
    std::vector<unsigned char> all;
    for (const auto& buffer : buffers_) all.insert(all.end(), buffer->data(), buffer->data() + buffer->bytes());
    return all;
  }

  // Traced runs only: what changed since the referee was last told.
  void tell() {
    for (std::size_t i = 0; i < call_.buffers; ++i) {
      const GuardedBuffer& buffer = *buffers_[first_ + i];
      if (std::memcmp(told_[i].data(), buffer.data(), buffer.bytes()) == 0) continue;
      told_[i].assign(buffer.data(), buffer.data() + buffer.bytes());
      snapshot(i, told_[i].data(), told_[i].size());
    }
  }

  void before_request() override { tell(); }
  void received(const void* data, std::size_t bytes) override {
    if (is_own(data)) snapshot(call_.buffers, data, bytes);
    tell();
  }

  void combined(const void* into, std::size_t bytes) {
    protocol::Request request;
    request.verb = protocol::Verb::Combined;
    request.bytes = bytes;
    request.combined_bytes = std::exchange(tally_.combined_bytes, 0);
    post(request);
    received(into, bytes);
  }

 private:
  bool is_own(const void* data) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    for (std::size_t i = 0; i < call_.buffers; ++i) {
      if (buffers_[first_ + i]->covers(address)) return false;
    }
    return true;
  }
  static void snapshot(std::size_t number, const void* data, std::size_t bytes) {
    protocol::Request request;
    request.verb = protocol::Verb::Snapshot;
    request.handle = number;
    request.payload_bytes = bytes;
    post(request, data);
  }

  const protocol::Call& call_;
  Tally& tally_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::vector<const GuardedBuffer*> pointers_;
  std::size_t first_ = 0;
  std::vector<std::vector<unsigned char>> told_;
};

void mark(protocol::Verb verb, std::size_t number, Tally& tally) {
  protocol::Request request;
  request.verb = verb;
  request.handle = number;
  request.combined_bytes = std::exchange(tally.combined_bytes, 0);
  post(request);
}

void run_calls(const protocol::Call& header, detail::Run run) {
  Tally tally;
  Work work(header, tally);
  const bool is_traced = header.is_traced != 0;
  RefereedRanks ranks(header.rank, header.world_size, tally, is_traced ? &work : nullptr);
  OperatorContext context{&tally, nullptr, nullptr, &work};
  if (is_traced) {
    context.about_to_combine = [](void* watcher) { static_cast<Work*>(watcher)->tell(); };
    context.combined = [](void* watcher, const void* into, std::size_t bytes) {
      static_cast<Work*>(watcher)->combined(into, bytes);
    };
  }
  with_operator(static_cast<detail::ElementType>(header.type), header.op, context, [&](void* operation) {
    for (std::size_t number = 0; number < header.calls; ++number) {
      detail::Call call;
      call.root = header.root;
      call.parameter = header.parameter;
      call.operation = operation;
      work.begin(number, call);
      mark(protocol::Verb::Begin, number, tally);
      run(ranks, call);
      if (is_traced) work.tell();
      mark(protocol::Verb::End, number, tally);
    }
  });
  const std::vector<unsigned char> contents = work.contents();
  protocol::Request done;
  done.verb = protocol::Verb::Done;
  done.payload_bytes = contents.size();
  post(done, contents.data());
}

void report_exception(const std::string& text) {
  protocol::Request request;
  request.verb = protocol::Verb::Threw;
  request.payload_bytes = std::min<std::size_t>(text.size(), 1000);
  post(request, text.data());
}

// By name and type; what has no data (a barrier) is registered once, for all types.
detail::Run find(const protocol::Call& call) {
  detail::Run any = nullptr;
  for (const detail::Registration* entry = detail::registrations; entry != nullptr; entry = entry->next) {
    if (std::string(call.function) != entry->function) continue;
    if (static_cast<std::uint32_t>(entry->type) == call.type) return entry->run;
    any = entry->run;
  }
  if (any == nullptr) _exit(123);  // the referee asks for what was registered only
  return any;
}

void announce() {
  std::string names;
  for (const detail::Registration* entry = detail::registrations; entry != nullptr; entry = entry->next) {
    const std::string name(entry->function);
    // With the end of the name before: "reduce" is not "all_reduce".
    if (('\0' + names).find('\0' + name + '\0') == std::string::npos) names += name + '\0';
  }
  protocol::Request ready;
  ready.verb = protocol::Verb::Ready;
  ready.payload_bytes = names.size();
  post(ready, names.data());
}

}  // namespace
}  // namespace tutti::labs::driver

int main() {
  using namespace tutti::labs;
  using namespace tutti::labs::driver;
  announce();
  for (;;) {
    protocol::Call call;
    read_all(&call, sizeof call);
    call.function[protocol::kLongestName - 1] = '\0';
    try {
      run_calls(call, find(call));
    } catch (const std::bad_alloc&) {
      report_exception("std::bad_alloc");
    } catch (const std::exception& error) {
      report_exception(error.what());
    } catch (...) {
      report_exception("something that is no std::exception");
    }
  }
}
