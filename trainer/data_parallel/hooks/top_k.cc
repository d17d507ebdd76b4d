#include <tutti/trainer/data_parallel/hooks/comm_hooks.h>
#include <tutti/trainer/data_parallel/pending_works.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

// The bits of a magnitude are in the order of the magnitudes, with NaN above infinity.
std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu; }

struct Threshold {
  std::uint32_t bits = 0;  // of the smallest magnitude that is taken
  std::size_t equal = 0;   // how many of exactly that magnitude are taken
};

// The 31 bits are found from the top, eleven or ten at a time: among the numbers that share the bits found so far,
// those with the larger next digits are taken until `wanted` are reached.
Threshold threshold_of(std::span<const float> values, std::size_t wanted) {
  constexpr unsigned kBits = 11;
  constexpr std::array<unsigned, 3> kShifts = {20, 10, 0};
  Threshold found{.bits = 0, .equal = wanted};
  std::uint32_t mask = 0;  // of the bits found so far
  for (const unsigned shift : kShifts) {
    const std::uint32_t digit_mask = (shift == 20 ? (1u << kBits) : (1u << (kBits - 1))) - 1;
    std::array<std::size_t, 1u << kBits> counts{};
    for (const float value : values) {
      const std::uint32_t bits = magnitude_bits(value);
      if ((bits & mask) == found.bits) ++counts[(bits >> shift) & digit_mask];
    }
    std::uint32_t digit = digit_mask;
    for (; counts[digit] < found.equal; --digit) found.equal -= counts[digit];
    found.bits |= digit << shift;
    mask |= digit_mask << shift;
  }
  return found;
}

}  // namespace

void largest_magnitudes(std::span<const float> values, std::span<std::int32_t> indices) {
  if (indices.size() > values.size() || values.size() > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("largest_magnitudes: " + std::to_string(indices.size()) + " of " +
                                std::to_string(values.size()) + " values were asked for");
  }
  if (indices.size() == values.size()) return std::iota(indices.begin(), indices.end(), 0);
  if (indices.empty()) return;
  const Threshold threshold = threshold_of(values, indices.size());
  std::size_t equal = threshold.equal;
  std::size_t taken = 0;
  for (std::size_t i = 0; taken < indices.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    if (bits < threshold.bits || (bits == threshold.bits && equal == 0)) continue;
    if (bits == threshold.bits) --equal;
    indices[taken++] = static_cast<std::int32_t>(i);
  }
}

namespace {

struct Share {
  BucketSlot slot;
  std::size_t taken = 0;  // numbers of it that travel
};

/// One bucket's memory. A message is all indices, within the bucket, and then all values, as bits.
struct BucketMemory {
  std::vector<Share> shares;
  std::size_t taken = 0;  // of all shares
  tensor::Tensor error;   // like the bucket: what has not been sent yet
  std::vector<std::int32_t> sent;
  std::vector<std::int32_t> received;  // of all ranks
};

class TopKExchange : public GradientExchange {
 public:
  TopKExchange(comm::ProcessGroup& group, const ExchangePlan& plan, double density)
      : works_(group, plan.buckets.size()), shapes_(plan.shapes) {
    for (const Bucket& bucket : plan.buckets) {
      BucketMemory memory;
      for (const BucketSlot& slot : bucket.slots) {
        const double part = shapes_[slot.parameter].rank() < 2 ? 1 : density;
        const auto taken = static_cast<std::size_t>(std::ceil(part * static_cast<double>(slot.count)));
        memory.shares.push_back({.slot = slot, .taken = std::min(taken, slot.count)});
        memory.taken += memory.shares.back().taken;
      }
      memory.error = tensor::Tensor::zeros({static_cast<std::int64_t>(bucket.count)});
      memory.sent.resize(2 * memory.taken);
      memory.received.resize(2 * memory.taken * static_cast<std::size_t>(group.world_size()));
      buckets_.push_back(std::move(memory));
    }
  }

  void begin(std::size_t bucket, tensor::Tensor& gradients) override {
    BucketMemory& memory = buckets_[bucket];
    float* const error = memory.error.data<float>();
    const float* const gradient = gradients.data<float>();
    for (std::int64_t i = 0; i < memory.error.numel(); ++i) error[i] += gradient[i];
    choose(memory);
    const auto sent = comm::const_buffer(std::span<const std::int32_t>(memory.sent));
    const auto received = comm::buffer(std::span(memory.received));
    works_.begin(bucket, {.op = comm::OpKind::AllGather, .input = sent, .output = received});
  }

  void finish(std::size_t bucket, tensor::Tensor& gradients) override {
    works_.wait(bucket);
    const BucketMemory& memory = buckets_[bucket];
    gradients.fill(0);
    float* const sum = gradients.data<float>();
    for (auto message = memory.received.begin(); message != memory.received.end();) {
      const auto values = message + static_cast<std::ptrdiff_t>(memory.taken);
      for (std::ptrdiff_t i = 0; i < values - message; ++i) sum[message[i]] += std::bit_cast<float>(values[i]);
      message = values + (values - message);
    }
  }

  void abandon() noexcept override { works_.abandon(); }
  bool sums_elementwise() const override { return false; }
  std::string name() const override { return "topk"; }

  std::vector<std::pair<std::string, tensor::Tensor>> state() override {
    std::vector<std::pair<std::string, tensor::Tensor>> all;
    for (BucketMemory& memory : buckets_) {
      for (const auto& [slot, taken] : memory.shares) {
        if (taken == slot.count) continue;
        const auto part =
            memory.error.narrow(0, static_cast<std::int64_t>(slot.offset), static_cast<std::int64_t>(slot.count));
        all.emplace_back(std::to_string(slot.parameter) + ".error", part.reshape(shapes_[slot.parameter]));
      }
    }
    return all;
  }

 private:
  /// The largest numbers of `error` go into the message and leave it.
  static void choose(BucketMemory& memory) {
    float* const error = memory.error.data<float>();
    std::int32_t* index = memory.sent.data();
    std::int32_t* value = index + memory.taken;
    for (const auto& [slot, taken] : memory.shares) {
      largest_magnitudes({error + slot.offset, slot.count}, {index, taken});
      for (std::size_t i = 0; i < taken; ++i) {
        index[i] += static_cast<std::int32_t>(slot.offset);
        value[i] = std::bit_cast<std::int32_t>(error[index[i]]);
        error[index[i]] = 0;
      }
      index += taken;
      value += taken;
    }
  }

  PendingWorks works_;
  std::vector<tensor::Shape> shapes_;  // by parameter
  std::vector<BucketMemory> buckets_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_top_k_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                      double density) {
  return std::make_unique<TopKExchange>(group, plan, density);
}

}  // namespace tutti::trainer
