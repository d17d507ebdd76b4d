#include <tutti/nn/shared_batch.h>
#include <tutti/trainer/data/sampler.h>
#include <tutti/trainer/data_parallel/shared_batch.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace tutti::trainer {
namespace {

class Ranks : public tensor::BatchHolders {
 public:
  Ranks(std::unique_ptr<comm::ProcessGroup> group, bool exact, std::int64_t most_rows = 0)
      : group_(std::move(group)), exact_(exact), most_rows_(most_rows) {}

  tensor::Tensor gather(const tensor::Tensor& mine) override {
    tensor::Tensor own = mine;
    tensor::Tensor all = tensor::Tensor::empty({group_->world_size(), mine.numel()}, mine.dtype());
    group_->all_gather(as_buffer(own), as_buffer(all));
    return all;
  }
  int index() const override { return group_->rank(); }
  std::int64_t most_rows() const override { return most_rows_; }
  bool sums_exactly() const override { return exact_; }

 private:
  std::unique_ptr<comm::ProcessGroup> group_;
  bool exact_;
  std::int64_t most_rows_;
};

}  // namespace

int synchronise_batch_norm(nn::Module& model, comm::ProcessGroup& group, bool exact) {
  const auto layers = nn::batch_norm_layers(model);
  if (layers.empty()) return 0;
  const bool alone = group.world_size() == 1 && !exact;
  const auto ranks = alone ? nullptr : std::make_shared<Ranks>(group.split(0), exact);
  for (nn::BatchNorm2d* layer : layers) layer->share_batch_with(ranks);
  return static_cast<int>(layers.size());
}

void join_linear_layers(nn::Module& model, comm::ProcessGroup& group, std::int64_t samples, std::int64_t part) {
  const auto layers = nn::large_linear_layers(model, samples);
  if (layers.empty()) return;
  const std::int64_t share = dealt(samples, 0, group.world_size());
  const std::int64_t most = part > 0 ? std::min(part, share) : share;
  const auto ranks = group.world_size() == 1 ? nullptr : std::make_shared<Ranks>(group.split(0), true, most);
  for (nn::Linear* layer : layers) layer->share_batch_with(ranks);
}

std::vector<ParameterSize> parameter_sizes(const nn::Module& model) {
  const std::vector<bool> whole = nn::have_whole_gradients(model);
  std::vector<ParameterSize> sizes;
  for (const auto& [name, parameter] : model.named_parameters())
    sizes.push_back(
        {static_cast<std::size_t>(parameter.data().numel()), parameter.data().dtype(), whole[sizes.size()]});
  return sizes;
}

}  // namespace tutti::trainer
