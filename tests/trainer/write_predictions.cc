// Writes, for the built-in models, its weights as `tutti train` would and what it predicts for some inputs:
//   OUT/<model>.safetensors    weights        OUT/<model>.io.safetensors    tensors "x" and "y"
// With a model and a file of PyTorch's weights for 1000 classes it writes what that model predicts with them, as
// OUT/<model>.io.safetensors. torch_predictions.py compares all of them with PyTorch's own.
#include <tutti/nn/models/models.h>
#include <tutti/tensor/random.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>

#include <exception>
#include <filesystem>
#include <iostream>

namespace {

using tutti::tensor::Shape;
using tutti::tensor::Tensor;

Tensor inputs(const Shape& shape) {
  Tensor x = Tensor::empty(shape);
  tutti::tensor::Mt19937 generator(99);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = generator.uniform(0.0F, 1.0F);
  return x;
}

void write_predictions(const std::string& name, tutti::nn::Module& model, const std::filesystem::path& folder) {
  const Shape& first = model.named_parameters().at(0).second.shape();
  // A Linear takes rows; a convolution takes images (N, H, W, C), of one channel MNIST's.
  const std::int64_t side = first.rank() == 4 && first[1] == 1 ? 28 : 64;
  const Tensor x = inputs(first.rank() == 2 ? Shape{7, first[1]} : Shape{3, side, side, first[1]});
  model.train(false);
  const tutti::tensor::NoGrad no_grad;
  const Tensor y = model.forward(tutti::tensor::Variable(x)).data();
  tutti::trainer::replace_file(folder / (name + ".io.safetensors"),
                               tutti::trainer::encode_safetensors({{"x", x}, {"y", y}}));
}

void write_model(const std::string& name, const std::filesystem::path& folder) {
  const auto model = tutti::nn::make_model(name, 5);
  tutti::trainer::replace_file(folder / (name + ".safetensors"),
                               tutti::trainer::encode_safetensors(tutti::trainer::model_tensors(*model)));
  write_predictions(name, *model, folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::cerr << "usage: write_predictions FOLDER [MODEL WEIGHTS]\n";
    return 2;
  }
  try {
    if (argc == 4) {
      const auto model = tutti::nn::make_model(argv[2], 0, {.classes = 1000});
      tutti::trainer::load_parameters(*model, argv[3]);
      write_predictions(argv[2], *model, argv[1]);
      return 0;
    }
    for (const std::string& name : tutti::nn::model_names()) {
      if (name != "resnet34" && name != "resnet101") write_model(name, argv[1]);  // 250 MB, and nothing new
    }
  } catch (const std::exception& error) {
    std::cerr << "write_predictions: " << error.what() << "\n";
    return 1;
  }
}
