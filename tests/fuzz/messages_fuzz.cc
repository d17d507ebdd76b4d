// PointToPoint against a peer that sends any messages and answers: receives and sends end with what was asked
// for, or with an error, and nothing is written outside the buffers.
#include <tutti/comm/base/error.h>
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/tests/support/inproc_transport.h>

#include <deque>
#include <vector>

#include "fuzz_input.h"

namespace {

using namespace tutti;

constexpr std::uint64_t kGroup = 1;

/// Mostly what a peer might send; the fields that matter are in range of what is asked for below.
comm::FrameHeader any_header(fuzz::Input& input) {
  comm::FrameHeader header;
  header.kind = static_cast<comm::FrameKind>(1 + input.number<std::uint8_t>() % 5);
  header.fingerprint.group = input.number<std::uint8_t>() < 250 ? kGroup : 2;
  header.fingerprint.count = input.number<std::uint8_t>() % 8;
  header.fingerprint.root = input.number<std::uint8_t>() % 3;
  header.fingerprint.op = comm::OpKind::Send;
  header.fingerprint.dtype = static_cast<comm::DType>(input.number<std::uint8_t>() % 3);
  header.nbytes = header.kind == comm::FrameKind::Eager || header.kind == comm::FrameKind::Rendezvous
                      ? header.fingerprint.count * comm::size_of(header.fingerprint.dtype)
                      : 0;
  header.id = input.number<std::uint8_t>() % 4;
  if (const auto odd = input.number<std::uint8_t>(); odd >= 200) header.nbytes = odd;
  if (const auto odd = input.number<std::uint8_t>(); odd >= 200)
    header.fingerprint.count = input.number<std::uint64_t>();
  return header;
}

class TenSeconds final : public comm::Caller {
 public:
  comm::Deadline deadline() override { return deadline_; }

 private:
  const comm::Deadline deadline_ = comm::Deadline::after(std::chrono::seconds(10));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto store = std::make_shared<comm::HashStore>();
  store->set("world/failure", "the peer is fuzz", comm::Deadline::after(std::chrono::seconds(10)));
  auto ranks = test::make_inproc_transports(2);
  comm::FailureMonitor monitor(store, "world", 0, 2, [](int rank) { return "rank " + std::to_string(rank); });
  comm::PointToPoint* engine = nullptr;
  comm::PointToPoint messages(*ranks[0], monitor,
                              {.group = kGroup,
                               .timeout = std::chrono::seconds(10),
                               .report_after = std::chrono::seconds(10),
                               .on_failure = [&](const comm::Error& error, const comm::Fingerprint&) {
                                 engine->fail(std::make_exception_ptr(error));
                               }});
  engine = &messages;
  const int calls = input.number<std::uint8_t>() % 8;
  const auto answers = input.number<std::uint8_t>();
  const std::vector<std::byte> payload(256);
  std::deque<comm::Outgoing> posted;
  while (!input.empty() && posted.size() < 64) {
    comm::Outgoing& frame = posted.emplace_back();
    frame.header = any_header(input);
    frame.payload = payload.data();
    const bool answer = frame.header.kind == comm::FrameKind::ClearToSend && answers % 4 != 0;
    (answer ? ranks[1]->answers(0) : ranks[1]->messages(0)).post(frame);
  }
  ranks[1]->close();
  try {
    std::vector<float> four(4), large(comm::kEagerBytes);
    TenSeconds limit;
    for (int i = 0; i < calls; ++i) {
      if (i % 3 == 2) messages.recv(comm::buffer(std::span(four)), -1, 1, limit);
      if (i % 3 == 0) messages.recv(comm::buffer(std::span(four)), 1, i % 2, limit);
      if (i % 3 == 1) messages.send(comm::buffer(std::span(large)), 1, 0, limit);
    }
  } catch (const comm::Error&) {
  }
  return 0;
}
