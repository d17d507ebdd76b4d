// The records of failures and waits that ranks read from the store: whatever they hold, a diagnosis ends, names ranks
// of this world only, and a recorded failure is repeated.
#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/store/hash_store.h>

#include "fuzz_input.h"

namespace {

using namespace tutti;
using comm::FailureMonitor;

constexpr int kRanks = 4;

std::string describe(int rank) {
  fuzz::require(rank >= 0 && rank < kRanks, "only ranks of this world are named");
  return "rank " + std::to_string(rank);
}

void expect_mismatch_at_most(FailureMonitor& monitor, const comm::Fingerprint& operation, std::span<const int> others) {
  try {
    monitor.publish_wait(operation, others);
  } catch (const comm::Error& error) {
    fuzz::require(error.code() == comm::ErrorCode::Mismatch, "another rank's wait is a mismatch at most");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto soon = comm::Deadline::after(std::chrono::seconds(10));
  const auto store = std::make_shared<comm::HashStore>();
  FailureMonitor monitor(store, "world", 0, kRanks, describe);
  for (int rank = 1; rank < kRanks; ++rank) {
    const auto record = input.take(input.number<std::uint8_t>());
    if (record.empty()) continue;  // this rank has published nothing
    store->set("world/waiting/" + std::to_string(rank),
               std::string_view(reinterpret_cast<const char*>(record.data()), record.size()), soon);
  }
  const std::array others{1, 2, 3};
  const comm::Fingerprint operation{.seq = 1, .op = comm::OpKind::AllReduce};
  expect_mismatch_at_most(monitor, operation, others);
  // As if taken long ago, so that the diagnosis need not wait; half of the ranks have renewed their reports since.
  FailureMonitor::Reports reports = monitor.reports();
  reports.at = {};
  for (auto& report : reports.by_rank)
    if (report && input.number<std::uint8_t>() % 2 == 0) report->stamp += "earlier";
  fuzz::require(!monitor.diagnose(operation, others, reports).empty(), "a diagnosis says something");

  const std::string cause = input.text();
  if (cause.empty()) return 0;
  store->set("world/failure", cause, soon);
  try {
    monitor.check({});
    fuzz::require(false, "a recorded failure ends every wait");
  } catch (const comm::Error& error) {
    fuzz::require(error.what() == cause || cause.find('\0') != std::string::npos, "and is repeated word by word");
  }
  return 0;
}
