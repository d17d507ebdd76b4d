#include <tutti/tools/bench/data.h>
#include <tutti/tools/bench/measure.h>

#include <algorithm>
#include <cmath>
#include <cstring>
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

/// Zeroed, plain or registered.
class Memory {
 public:
  Memory() = default;
  Memory(comm::ProcessGroup* registrar, std::size_t bytes) : size_(bytes) {
    if (registrar) {
      registered_ = registrar->allocate(bytes);
    } else {
      plain_.resize(bytes);
    }
  }
  std::byte* data() { return registered_.memory ? registered_.data() : plain_.data(); }
  const std::byte* data() const { return registered_.memory ? registered_.data() : plain_.data(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::size_t size_ = 0;
  Bytes plain_;
  comm::RegisteredBuffer registered_;
};

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
      return Memory(options.registered ? &group : nullptr, count * element_bytes);
    };
    input_ = memory(extents_.input);
    output_ = memory(extents_.output);
    fill_data(c, options.seed, input());
    if (in_place_) fill_data(c, options.seed, output());
    if (in_place_ && (check_ || fresh_)) initial_.assign(output_.data(), output_.data() + output_.size());
    if (fresh_) initial_input_.assign(input_.data(), input_.data() + input_.size());
    if (!check_) return;
    expected_.resize(output_.size());
    fill_expected(operation, c, options.seed, {expected_.data(), extents_.output, dtype_});
  }

  comm::Buffer input() { return {input_.data(), extents_.input, dtype_}; }
  comm::Buffer output() { return {output_.data(), extents_.output, dtype_}; }

  /// Unchecked and not fresh, as others do it: the buffers stay as the last call left them.
  void set_up() {
    if (fresh_ && !input_.empty()) std::memcpy(input_.data(), initial_input_.data(), input_.size());
    if (output_.empty()) return;
    if (!initial_.empty()) {
      std::memcpy(output_.data(), initial_.data(), output_.size());
    } else if (check_) {
      std::memset(output_.data(), kUnwritten, output_.size());
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
  Memory input_, output_;
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

std::size_t agreed(comm::ProcessGroup& group, std::size_t rank_zeros_value) {
  auto value = static_cast<std::int64_t>(rank_zeros_value);
  group.broadcast(std::span<std::int64_t>(&value, 1), 0);
  return static_cast<std::size_t>(value);
}

/// One row's calls, on one rank.
class Row {
 public:
  Row(comm::ProcessGroup& group, const Operation& operation, const Case& c, const MeasureOptions& options)
      : group_(group), operation_(operation), case_(c), buffers_(make_buffers(group, operation, c, options)) {
    barrier_each_ = bytes_for(operation, c.count, comm::size_of(c.dtype), c.world_size) > options.barrier_above;
  }

  void warm_up(std::size_t calls) {
    for (std::size_t i = 0; i < calls; ++i) {
      buffers_.set_up();
      operation_.run(group_, case_, buffers_.input(), buffers_.output());
    }
  }

  void time(std::size_t calls) {
    const comm::Buffer input = buffers_.input(), output = buffers_.output();
    times_us_.reserve(times_us_.size() + calls);
    group_.barrier();
    for (std::size_t i = 0; i < calls; ++i) {
      buffers_.set_up();
      if (barrier_each_) group_.barrier();
      const auto begin = Clock::now();
      operation_.run(group_, case_, input, output);
      const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
      times_us_.push_back(taken.count() * operation_.time_share);
      wrong_ += static_cast<std::int64_t>(buffers_.wrong());
    }
  }

  /// Collective.
  Measurement result(bool check) {
    group_.all_reduce(std::span<double>(times_us_), comm::ReduceOp::Max);
    group_.all_reduce(std::span<std::int64_t>(&wrong_, 1));
    Measurement measurement{.iterations = times_us_.size(), .time = summarize(std::move(times_us_)), .wrong = {}};
    if (check) measurement.wrong = static_cast<std::uint64_t>(wrong_);
    return measurement;
  }

 private:
  comm::ProcessGroup& group_;
  const Operation& operation_;
  const Case& case_;
  Buffers buffers_;
  bool barrier_each_ = false;
  std::vector<double> times_us_;
  std::int64_t wrong_ = 0;
};

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
  Row row(group, operation, c, options);
  group.barrier();  // filling the buffers took the ranks differently long
  row.warm_up(options.warmup);
  std::size_t done = 0;
  std::chrono::nanoseconds elapsed{0};
  while (const std::size_t calls = agreed(group, next_batch(done, elapsed, options))) {
    const auto begin = Clock::now();
    row.time(calls);
    elapsed += Clock::now() - begin;
    done += calls;
  }
  return row.result(options.check);
}

}  // namespace tutti::tools::bench
