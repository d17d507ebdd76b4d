#include <tutti/nn/loss.h>

#include <stdexcept>

namespace tutti::nn {

tensor::Variable reconstruction_loss(const tensor::Variable& output, const tensor::Tensor& images,
                                     Reduction reduction) {
  const bool fits = output.shape().rank() > 0 && images.rank() > 0 && output.shape()[0] == images.shape()[0] &&
                    output.data().numel() == images.numel();
  if (!fits) {
    throw std::invalid_argument("reconstruction_loss: the output has shape " + output.shape().to_string() +
                                " and the images have shape " + images.shape().to_string() +
                                ", expected as many elements for each sample");
  }
  return tensor::mse_loss(output, images.reshape(output.shape()), reduction);
}

}  // namespace tutti::nn
