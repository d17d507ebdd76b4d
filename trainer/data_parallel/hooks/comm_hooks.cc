#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/hooks/comm_hooks.h>
#include <tutti/trainer/data_parallel/pending_works.h>

#include <algorithm>
#include <stdexcept>
#include <type_traits>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

template <typename To, typename From>
void convert(To* to, const From* from, std::int64_t count) {
  tensor::parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
    std::transform(from + begin, from + end, to + begin, [](From value) { return static_cast<To>(value); });
  });
}

/// bf16 and fp16: gradients travel, and are summed, as T.
template <typename T>
class HalfExchange : public GradientExchange {
 public:
  static constexpr bool kBFloat = std::is_same_v<T, comm::BFloat16>;

  HalfExchange(comm::ProcessGroup& group, std::size_t buckets)
      : group_(group), works_(group, buckets), travelling_(buckets) {}

  void begin(std::size_t bucket, tensor::Tensor& gradients) override {
    const auto count = static_cast<std::size_t>(gradients.numel());
    comm::RegisteredBuffer& memory = travelling_[bucket];
    if (memory.nbytes != count * sizeof(T)) memory = group_.allocate(count * sizeof(T));
    convert(memory.template as<T>().data(), gradients.data<float>(), gradients.numel());
    const comm::Buffer data = comm::buffer(memory.template as<T>().first(count));
    works_.begin(bucket, {.op = comm::OpKind::AllReduce, .output = data});
  }

  void finish(std::size_t bucket, tensor::Tensor& gradients) override {
    works_.wait(bucket);
    convert(gradients.data<float>(), travelling_[bucket].template as<T>().data(), gradients.numel());
  }

  void abandon() noexcept override { works_.abandon(); }

  /// Whole numbers up to 2^8 or 2^11 are exact, and DataParallel counts ranks.
  bool sums_elementwise() const override { return group_.world_size() <= (kBFloat ? 256 : 2048); }
  std::string name() const override { return kBFloat ? "bf16" : "fp16"; }

 private:
  comm::ProcessGroup& group_;
  PendingWorks works_;
  std::vector<comm::RegisteredBuffer> travelling_;  // by bucket, from its first begin on
};

void check(const CommHookOptions& options) {
  const std::string& hook = options.hook;
  if (hook != "none" && hook != "bf16" && hook != "fp16" && hook != "topk") {
    throw std::invalid_argument("the comm hook \"" + hook + "\" is not known; there are none, bf16, fp16, topk");
  }
  if (!(options.topk_density > 0 && options.topk_density <= 1)) {
    throw std::invalid_argument("the density of topk is " + std::to_string(options.topk_density) +
                                "; it must be above 0, and at most 1");
  }
}

void check_types(const std::string& hook, const ExchangePlan& plan) {
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.dtype == tensor::DType::Float32) continue;
    throw std::invalid_argument("the comm hook " + hook + " compresses float32, but parameter " +
                                std::to_string(bucket.slots.front().parameter) + " of the model is " +
                                std::string(tensor::name(bucket.dtype)));
  }
}

std::unique_ptr<GradientExchange> make(const CommHookOptions& options, comm::ProcessGroup& group,
                                       const ExchangePlan& plan) {
  if (options.hook == "bf16") return std::make_unique<HalfExchange<comm::BFloat16>>(group, plan.buckets.size());
  if (options.hook == "fp16") return std::make_unique<HalfExchange<comm::Half>>(group, plan.buckets.size());
  return make_top_k_exchange(group, plan, options.topk_density);
}

}  // namespace

ExchangeFactory make_comm_hook(const CommHookOptions& options) {
  check(options);
  if (options.hook == "none") return {};
  return [options](comm::ProcessGroup& group, const ExchangePlan& plan) {
    check_types(options.hook, plan);
    return make(options, group, plan);
  };
}

}  // namespace tutti::trainer
