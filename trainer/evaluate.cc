#include <tutti/trainer/device/device_feed.h>
#include <tutti/trainer/evaluate.h>

#include <array>

namespace tutti::trainer {
namespace {

class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.train(false);
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool was_training_;
  tensor::NoGrad no_grad_;
};

}  // namespace

Evaluation evaluate(comm::ProcessGroup& group, nn::Module& model, Objective objective, Loader& loader,
                    Progress* progress) {
  const EvaluationMode mode(model);
  Evaluation result{.loss = 0, .confusion = ConfusionMatrix(loader.dataset().classes)};
  std::array<double, 2> sums{};  // loss, samples
  loader.begin_epoch(0);
  DeviceFeed feed(loader, device_of(model));
  for (Batch batch; feed.next(batch);) {
    const tensor::Variable output = model.forward(tensor::Variable(batch.x));
    feed.prefetch();
    sums[0] += loss_of(objective, output, batch).data().item() / static_cast<double>(loss_terms(objective, batch));
    sums[1] += static_cast<double>(batch.count);
    if (progress != nullptr) progress->evaluated(batch.number + 1, loader.batches_per_epoch());
    if (objective == Objective::Classify) result.confusion.add_batch(output.data(), batch.y);
  }
  if (progress != nullptr) progress->clear();
  group.all_reduce(std::span<double>(sums));
  group.all_reduce(result.confusion.counts());
  result.loss = sums[1] > 0 ? sums[0] / sums[1] : 0.0;
  return result;
}

}  // namespace tutti::trainer
