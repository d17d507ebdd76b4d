#include <tutti/nn/batch_norm.h>
#include <tutti/trainer/data_parallel/sync_batch_norm.h>
#include <tutti/trainer/tensor_comm.h>

#include <memory>
#include <vector>

namespace tutti::trainer {
namespace {

class Ranks : public tensor::BatchHolders {
 public:
  Ranks(std::unique_ptr<comm::ProcessGroup> group, bool exact) : group_(std::move(group)), exact_(exact) {}

  tensor::Tensor gather(const tensor::Tensor& mine) override {
    tensor::Tensor own = mine;
    tensor::Tensor all = tensor::Tensor::empty({group_->world_size(), mine.numel()}, mine.dtype());
    group_->all_gather(as_buffer(own), as_buffer(all));
    return all;
  }
  bool sums_exactly() const override { return exact_; }

 private:
  std::unique_ptr<comm::ProcessGroup> group_;
  bool exact_;
};

}  // namespace

int synchronise_batch_norm(nn::Module& model, comm::ProcessGroup& group, bool exact) {
  std::vector<nn::BatchNorm2d*> layers;
  model.apply([&](nn::Module& module) {
    if (auto* layer = dynamic_cast<nn::BatchNorm2d*>(&module)) layers.push_back(layer);
  });
  if (layers.empty()) return 0;
  const bool alone = group.world_size() == 1 && !exact;
  const auto ranks = alone ? nullptr : std::make_shared<Ranks>(group.split(0), exact);
  for (nn::BatchNorm2d* layer : layers) layer->share_batch_with(ranks);
  return static_cast<int>(layers.size());
}

}  // namespace tutti::trainer
