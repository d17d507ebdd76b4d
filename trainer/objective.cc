#include <tutti/trainer/objective.h>

#include <stdexcept>

namespace tutti::trainer {

Objective objective_of(std::string_view model) {
  return model == "autoencoder" ? Objective::Reconstruct : Objective::Classify;
}

tensor::Variable loss_of(Objective objective, const tensor::Variable& output, const Batch& batch,
                         double label_smoothing) {
  switch (objective) {
    case Objective::Classify:
      return tensor::cross_entropy(output, batch.y, tensor::Reduction::WideSum, label_smoothing);
    case Objective::Reconstruct:
      return tensor::mse_loss(output, batch.x.reshape(output.shape()), tensor::Reduction::WideSum);
  }
  throw std::logic_error("unknown objective");
}

std::int64_t loss_terms(Objective objective, const Batch& batch) {
  return objective == Objective::Reconstruct && batch.count > 0 ? batch.x.numel() / batch.count : 1;
}

}  // namespace tutti::trainer
