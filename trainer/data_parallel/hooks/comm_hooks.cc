#include <tutti/trainer/data_parallel/hooks/comm_hooks.h>
#include <tutti/trainer/data_parallel/hooks/half_exchange.h>
#include <tutti/trainer/data_parallel/hooks/power_sgd_exchange.h>
#include <tutti/trainer/data_parallel/hooks/top_k_exchange.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::trainer {
namespace {

void check(const CommHookOptions& options) {
  const auto& names = comm_hook_names();
  if (std::find(names.begin(), names.end(), options.hook) == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw std::invalid_argument("the comm hook \"" + options.hook + "\" is not known; there are " + known);
  }
  if (!(options.topk_density > 0 && options.topk_density <= 1)) {
    throw std::invalid_argument("the density of topk is " + std::to_string(options.topk_density) +
                                "; it must be above 0, and at most 1");
  }
  if (options.powersgd_rank < 1) {
    throw std::invalid_argument("the rank of powersgd is " + std::to_string(options.powersgd_rank) +
                                "; it must be at least 1");
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
  if (options.hook == "bf16") return make_half_exchange<comm::BFloat16>(group, plan);
  if (options.hook == "fp16") return make_half_exchange<comm::Half>(group, plan);
  if (options.hook == "topk") return make_top_k_exchange(group, plan, options.topk_density);
  return make_power_sgd_exchange(group, plan, {.rank = options.powersgd_rank, .saving = options.powersgd_saving});
}

}  // namespace

const std::vector<std::string>& comm_hook_names() {
  static const std::vector<std::string> names{"none", "bf16", "fp16", "topk", "powersgd"};
  return names;
}

ExchangeFactory make_comm_hook(const CommHookOptions& options) {
  check(options);
  if (options.hook == "none") return {};
  return [options](comm::ProcessGroup& group, const ExchangePlan& plan) {
    check_types(options.hook, plan);
    return make(options, group, plan);
  };
}

}  // namespace tutti::trainer
