#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/hooks/half_exchange.h>
#include <tutti/trainer/data_parallel/pending_works.h>

#include <algorithm>
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
    works_.all_reduce(bucket, comm::buffer(memory.template as<T>().first(count)));
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

}  // namespace

template <typename T>
std::unique_ptr<GradientExchange> make_half_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<HalfExchange<T>>(group, plan.buckets.size());
}

template std::unique_ptr<GradientExchange> make_half_exchange<comm::BFloat16>(comm::ProcessGroup&, const ExchangePlan&);
template std::unique_ptr<GradientExchange> make_half_exchange<comm::Half>(comm::ProcessGroup&, const ExchangePlan&);

}  // namespace tutti::trainer
