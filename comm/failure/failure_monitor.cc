#include <tutti/comm/base/log.h>
#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/store/tcp_store_server.h>

#include <set>
#include <sstream>
#include <thread>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kStoreLimit(1000);
constexpr std::chrono::milliseconds kReportLimit(2000);
constexpr std::chrono::milliseconds kCauseLimit(300);
constexpr std::chrono::milliseconds kPollEvery(20);
constexpr std::chrono::milliseconds kStillReporting(600);  // a waiting rank renews its report every 200 ms

Deadline store_deadline() { return Deadline::after(kStoreLimit); }

}  // namespace

FailureMonitor::FailureMonitor(std::shared_ptr<Store> store, std::string group, int rank, int world_size,
                               std::function<std::string(int)> describe, std::vector<int> world_ranks)
    : store_(std::move(store)),
      group_(std::move(group)),
      rank_(rank),
      world_size_(world_size),
      describe_(std::move(describe)),
      world_ranks_(std::move(world_ranks)),
      prefix_("rank " + std::to_string(rank) + "/" + std::to_string(world_size) +
              (world_ranks_.empty()
                   ? ""
                   : " of group '" + group_ + "' (rank " + std::to_string(world_rank(rank)) + " of the world)") +
              ": ") {}

int FailureMonitor::world_rank(int rank) const {
  return world_ranks_.empty() ? rank : world_ranks_[static_cast<std::size_t>(rank)];
}

std::string FailureMonitor::short_name(int rank) const {
  const std::string text = "rank " + std::to_string(rank);
  return world_ranks_.empty() ? text : text + " (rank " + std::to_string(world_rank(rank)) + " of the world)";
}

std::optional<std::string> FailureMonitor::read(const std::string& key) {
  if (!store_->check({&key, 1}, store_deadline())) return std::nullopt;
  return store_->get(key, store_deadline());
}

std::string FailureMonitor::report(const std::string& cause) noexcept {
  try {
    return store_->compare_set(key("failure"), "", cause, Deadline::after(kReportLimit));
  } catch (const std::exception& error) {
    log(LogLevel::Debug, prefix_, "could not record the failure: ", error.what());
    return cause;
  }
}

std::optional<Error> FailureMonitor::find_cause(std::span<const int> awaited) {
  if (const auto cause = read(key("failure"))) return Error(ErrorCode::Aborted, *cause);
  for (int rank : awaited)
    if (const auto lost = read(kLostKeyPrefix + std::to_string(world_rank(rank))))
      return Error(ErrorCode::PeerLost, "lost ", describe_(rank), ": ", *lost);
  return std::nullopt;
}

void FailureMonitor::check(std::span<const int> awaited) {
  if (const auto cause = find_cause(awaited)) throw Error(*cause);
}

void FailureMonitor::explain_loss(const Error& error, std::span<const int> suspects) {
  const Deadline deadline = Deadline::after(kCauseLimit);
  std::optional<Error> cause;
  try {
    while (!(cause = find_cause(suspects)) && !deadline.expired()) std::this_thread::sleep_for(kPollEvery);
  } catch (const Error& unreachable) {
    throw Error(error.code(), error.what(), "; whether it was the first to fail is not known: ", unreachable.what());
  }
  throw Error(cause ? *cause : error);
}

void FailureMonitor::write_waiting(const Fingerprint& operation, std::span<const int> awaited) {
  std::string text = joined(++stamp_, " ", operation.seq, " ", awaited.size());
  for (int rank : awaited) text += " " + std::to_string(rank);
  text += " " + operation.to_string();
  store_->set(key("waiting/" + std::to_string(rank_)), text, store_deadline());
}

std::optional<FailureMonitor::Waiting> FailureMonitor::read_waiting(int rank) {
  const auto text = read(key("waiting/" + std::to_string(rank)));
  if (!text) return std::nullopt;
  std::istringstream in(*text);
  Waiting waiting;
  std::size_t count = 0;
  in >> waiting.stamp >> waiting.seq >> count;
  waiting.awaited.resize(std::min(count, static_cast<std::size_t>(world_size_)));
  for (int& awaited : waiting.awaited) in >> awaited;
  std::erase_if(waiting.awaited, [this](int awaited) { return awaited < 0 || awaited >= world_size_; });
  in.ignore(1);
  std::getline(in, waiting.operation);
  return waiting;
}

void FailureMonitor::publish_wait(const Fingerprint& operation, std::span<const int> awaited) {
  write_waiting(operation, awaited);
  for (int rank : awaited) {
    const auto other = read_waiting(rank);
    if (other && operation.seq != 0 && other->seq == operation.seq && other->operation != operation.to_string())
      throw Error(ErrorCode::Mismatch, short_name(rank_), " called ", operation.to_string(), ", but ", describe_(rank),
                  " called ", other->operation);
  }
}

FailureMonitor::Reports FailureMonitor::reports() {
  Reports all{{}, std::chrono::steady_clock::now()};
  for (int rank = 0; rank < world_size_; ++rank) all.by_rank.push_back(read_waiting(rank));
  return all;
}

std::string FailureMonitor::diagnose(const Fingerprint& operation, std::span<const int> awaited,
                                     std::optional<Reports> earlier) {
  try {
    if (!earlier) earlier = reports();
    let_age(*earlier, operation, awaited);
    return follow_waits(awaited, *earlier);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Aborted) throw;
    return listed(awaited, ", ", describe_) + ": not arrived, and the store cannot be asked why: " + error.what();
  }
}

/// Waits until a rank that still waits must have renewed its report since `earlier`.
void FailureMonitor::let_age(const Reports& earlier, const Fingerprint& operation, std::span<const int> awaited) {
  const Deadline old_enough(earlier.at + kStillReporting);
  while (!old_enough.expired()) {
    write_waiting(operation, awaited);  // others may be diagnosing, too: this rank still reports
    check({});
    std::this_thread::sleep_for(kPollEvery * 5);
  }
}

std::string FailureMonitor::follow_waits(std::span<const int> awaited, const Reports& earlier) {
  // Breadth first along the wait-for graph: names the nearest rank that does not report.
  std::vector<int> suspects(awaited.begin(), awaited.end());
  std::vector<std::string> chains(suspects.size());
  std::set<int> known{rank_};
  known.insert(awaited.begin(), awaited.end());
  std::string all_waits;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const int suspect = suspects[i];
    const std::string chain = chains[i];
    const auto now = read_waiting(suspect);
    const auto& then = earlier.by_rank[static_cast<std::size_t>(suspect)];
    const bool still_reports = now && (!then || now->stamp != then->stamp);
    if (!still_reports || now->awaited.empty())
      return chain + describe_(suspect) + " has not arrived" +
             (now ? "; it last reported waiting in " + now->operation
                  : "; it waits in no operation of this group (frozen, or busy elsewhere)");
    for (const int next : now->awaited) {
      const std::string wait =
          short_name(suspect) + " itself waits for " + short_name(next) + " in " + now->operation + "; ";
      all_waits += wait;
      if (!known.insert(next).second) continue;
      suspects.push_back(next);
      chains.push_back(chain + wait);
    }
  }
  const std::string here = awaited.empty() ? "" : "; this one for " + listed(awaited, ", ", describe_);
  return all_waits + "the ranks wait for each other" + here;
}

}  // namespace tutti::comm
