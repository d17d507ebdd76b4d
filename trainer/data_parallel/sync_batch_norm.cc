#include <tutti/nn/batch_norm.h>
#include <tutti/nn/linear.h>
#include <tutti/trainer/data_parallel/sync_batch_norm.h>
#include <tutti/trainer/tensor_comm.h>

#include <memory>
#include <set>
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

template <typename Layer>
std::vector<Layer*> layers_of(const nn::Module& model) {
  std::vector<Layer*> layers;
  const_cast<nn::Module&>(model).apply([&](nn::Module& module) {
    if (auto* layer = dynamic_cast<Layer*>(&module)) layers.push_back(layer);
  });
  return layers;
}

}  // namespace

int synchronise_batch_norm(nn::Module& model, comm::ProcessGroup& group, bool exact) {
  const auto layers = layers_of<nn::BatchNorm2d>(model);
  if (layers.empty()) return 0;
  const bool alone = group.world_size() == 1 && !exact;
  const auto ranks = alone ? nullptr : std::make_shared<Ranks>(group.split(0), exact);
  for (nn::BatchNorm2d* layer : layers) layer->share_batch_with(ranks);
  return static_cast<int>(layers.size());
}

void join_linear_layers(nn::Module& model, comm::ProcessGroup& group, std::int64_t samples, std::int64_t most) {
  std::vector<nn::Linear*> layers = layers_of<nn::Linear>(model);
  std::erase_if(layers, [samples](nn::Linear* layer) {
    const tensor::Shape& weight = layer->weight().shape();
    return samples * (weight[0] + weight[1]) >= weight.numel();
  });
  if (layers.empty()) return;
  const auto ranks = group.world_size() == 1 ? nullptr : std::make_shared<Ranks>(group.split(0), true, most);
  for (nn::Linear* layer : layers) layer->share_batch_with(ranks);
}

void leave_shared_batch(nn::Module& model) {
  for (nn::BatchNorm2d* layer : layers_of<nn::BatchNorm2d>(model)) layer->share_batch_with(nullptr);
  for (nn::Linear* layer : layers_of<nn::Linear>(model))
    if (layer->shares_batch()) layer->share_batch_with(nullptr);
}

std::vector<ParameterSize> parameter_sizes(const nn::Module& model) {
  std::set<tensor::Variable::Impl*> whole;
  for (nn::Linear* layer : layers_of<nn::Linear>(model))
    if (layer->shares_batch()) whole.insert(layer->weight().impl().get());
  std::vector<ParameterSize> sizes;
  for (const auto& [name, parameter] : model.named_parameters())
    sizes.push_back({.count = static_cast<std::size_t>(parameter.data().numel()),
                     .dtype = parameter.data().dtype(),
                     .is_whole = whole.contains(parameter.impl().get())});
  return sizes;
}

}  // namespace tutti::trainer
