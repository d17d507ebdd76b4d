#include <tutti/tools/labs/lab_measure.h>
#include <tutti/tools/labs/real/timing.h>

#include <algorithm>
#include <span>

namespace tutti::labs {
namespace {

/// Half of the median round trip between ranks 0 and 1, on rank 0; the other ranks take no part.
double one_way(Ranks& ranks, std::size_t bytes, int repetitions) {
  std::vector<unsigned char> data(bytes);
  std::vector<double> trips;
  for (int i = -2; i < repetitions && ranks.rank() < 2; ++i) {  // two to warm up
    const double begin = ranks.seconds();
    if (ranks.rank() == 0) ranks.send(std::span<const unsigned char>(data), 1);
    ranks.recv(std::span<unsigned char>(data), 1 - ranks.rank());
    if (ranks.rank() == 1) ranks.send(std::span<const unsigned char>(data), 0);
    if (i >= 0) trips.push_back(ranks.seconds() - begin);
  }
  if (trips.empty()) return 0;
  std::sort(trips.begin(), trips.end());
  return trips[trips.size() / 2] / 2;
}

}  // namespace

MessageTimes time_messages(comm::ProcessGroup& group, Ranks& ranks, const TimingOptions& options) {
  MessageTimes times;
  for (std::size_t bytes = 8; bytes <= options.max_bytes; bytes *= 4) {
    const int repetitions = bytes <= 64 * 1024 ? 20 * options.repetitions : options.repetitions;
    double seconds = 0;
    detail::Call call;
    call.parameter = bytes;
    call.root = repetitions;
    call.buffers.push_back({&seconds, sizeof seconds, sizeof seconds});
    group.barrier();
    call_solution("message_seconds", detail::ElementType::UInt8, ranks, call);
    group.barrier();
    const double own = one_way(ranks, bytes, repetitions);
    times.measured.push_back({static_cast<double>(bytes), seconds});
    times.library_measured.push_back({static_cast<double>(bytes), own});
  }
  if (ranks.rank() != 0) return times;
  times.library_line = fit_line(times.library_measured);
  const bool usable = std::all_of(times.measured.begin(), times.measured.end(),
                                  [](const TimedMessage& message) { return message.seconds > 0; });
  if (usable) times.line = fit_line(times.measured);
  return times;
}

}  // namespace tutti::labs
