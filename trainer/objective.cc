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
      return tensor::cross_entropy(output, batch.y, tensor::Reduction::Mean, label_smoothing);
    case Objective::Reconstruct:
      return tensor::mse_loss(output, batch.x.reshape(output.shape()));
  }
  throw std::logic_error("unknown objective");
}

}  // namespace tutti::trainer
