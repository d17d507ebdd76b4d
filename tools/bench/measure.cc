#include <tutti/tools/bench/data.h>
#include <tutti/tools/bench/measure.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>

namespace tutti::tools::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kFirstBatch = 4;
constexpr std::size_t kMinIterations = 5;
constexpr std::size_t kMaxIterations = 100'000;
constexpr std::size_t kMaxGrowth = 10;

// A pattern that no result holds by chance, so that an element that was never written is found.
constexpr int kUnwritten = 0xa5;

/// Zeroed, as the memory that is registered is.
comm::RegisteredBuffer plain_memory(std::size_t bytes) {
  return {std::shared_ptr<std::byte>(new std::byte[bytes](), std::default_delete<std::byte[]>()), bytes};
}

/// One rank's memory for one row.
class Buffers {
 public:
  Buffers(comm::ProcessGroup& group, const Operation& operation, const Case& c, const MeasureOptions& options)
      : dtype_(c.dtype),
        in_place_(operation.in_place),
        check_(options.check),
        fresh_(options.fresh),
        extents_(operation.extents(c)) {
    const std::size_t element_bytes = comm::size_of(c.dtype);
    const auto memory = [&](std::size_t count) {
      return options.registered ? group.allocate(count * element_bytes) : plain_memory(count * element_bytes);
    };
    input_ = memory(extents_.input);
    output_ = memory(extents_.output);
    fill_data(c, options.seed, input());
    if (in_place_) fill_data(c, options.seed, output());
    if (in_place_ && (check_ || fresh_)) initial_.assign(output_.data(), output_.data() + output_.nbytes);
    if (fresh_) initial_input_.assign(input_.data(), input_.data() + input_.nbytes);
    if (!check_) return;
    expected_.resize(output_.nbytes);
    fill_expected(operation, c, options.seed, {expected_.data(), extents_.output, dtype_});
  }

  comm::Buffer input() { return {input_.data(), extents_.input, dtype_}; }
  comm::Buffer output() { return {output_.data(), extents_.output, dtype_}; }

  /// Unchecked and not fresh, as others do it: the buffers stay as the last call left them.
  void set_up() {
    if (fresh_ && input_.nbytes > 0) std::memcpy(input_.data(), initial_input_.data(), input_.nbytes);
    if (output_.nbytes == 0) return;
    if (!initial_.empty()) {
      std::memcpy(output_.data(), initial_.data(), output_.nbytes);
    } else if (check_) {
      std::memset(output_.data(), kUnwritten, output_.nbytes);
    }
  }

  std::size_t wrong() const {
    if (!check_) return 0;
    return count_wrong({output_.data(), extents_.output, dtype_}, {expected_.data(), extents_.output, dtype_});
  }

 private:
  comm::DType dtype_;
  bool in_place_;
  bool check_;
  bool fresh_;
  Extents extents_;
  comm::RegisteredBuffer input_, output_;
  Bytes initial_;        // what output_ holds before each call, where the operation works in place
  Bytes initial_input_;  // the same of input_, if it is written anew
  Bytes expected_;       // what output_ must hold afterwards
};

Buffers make_buffers(comm::ProcessGroup& group, const Operation& operation, const Case& c,
                     const MeasureOptions& options) {
  try {
    return Buffers(group, operation, c, options);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error("rank " + std::to_string(c.rank) + ": no memory for the buffers of " +
                             std::string(operation.name) + " with " + std::to_string(c.count) +
                             " elements a rank; lower --max-bytes");
  }
}

}  // namespace

std::size_t next_batch(std::size_t done, std::chrono::nanoseconds elapsed, const MeasureOptions& options) {
  if (options.iterations > 0) return done == 0 ? options.iterations : 0;
  if (done == 0) return kFirstBatch;
  if (done >= kMaxIterations || (elapsed >= options.min_time && done >= kMinIterations)) return 0;
  const double each = std::max(1.0, static_cast<double>(elapsed.count())) / static_cast<double>(done);
  const double missing = std::ceil(static_cast<double>((options.min_time - elapsed).count()) / each);
  const std::size_t most = std::min((kMaxGrowth - 1) * done, kMaxIterations - done);
  return missing >= static_cast<double>(most) ? most : static_cast<std::size_t>(std::max(1.0, missing));
}

TimesUs summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto percentile = [&times](double fraction) {
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(times.size())));
    return times[std::max<std::size_t>(rank, 1) - 1];
  };
  return {.min = times.front(), .median = percentile(0.5), .p99 = percentile(0.99), .max = times.back()};
}

Measurement measure(comm::ProcessGroup& group, const Operation& operation, const Case& c,
                    const MeasureOptions& options) {
  Buffers buffers = make_buffers(group, operation, c, options);
  const comm::Buffer input = buffers.input(), output = buffers.output();
  const bool barrier_each = bytes_for(operation, c.count, comm::size_of(c.dtype), c.world_size) > options.barrier_above;
  group.barrier();  // filling the buffers took the ranks differently long
  for (std::size_t i = 0; i < options.warmup; ++i) {
    buffers.set_up();
    operation.run(group, c, input, output);
  }
  std::vector<double> times_us;
  std::int64_t wrong = 0;
  std::chrono::nanoseconds elapsed{0};
  while (const std::size_t calls = agreed(group, next_batch(times_us.size(), elapsed, options))) {
    const auto begin = Clock::now();
    times_us.reserve(times_us.size() + calls);
    group.barrier();
    for (std::size_t i = 0; i < calls; ++i) {
      buffers.set_up();
      if (barrier_each) group.barrier();
      const auto call = Clock::now();
      operation.run(group, c, input, output);
      const std::chrono::duration<double, std::micro> taken = Clock::now() - call;
      times_us.push_back(taken.count() * operation.time_share);
      wrong += static_cast<std::int64_t>(buffers.wrong());
    }
    elapsed += Clock::now() - begin;
  }
  group.all_reduce(std::span<double>(times_us), comm::ReduceOp::Max);
  group.all_reduce(std::span<std::int64_t>(&wrong, 1));
  Measurement measurement{.iterations = times_us.size(), .time = summarize(std::move(times_us)), .wrong = {}};
  if (options.check) measurement.wrong = static_cast<std::uint64_t>(wrong);
  return measurement;
}

}  // namespace tutti::tools::bench
