#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>

#include <cstring>
#include <functional>

namespace tutti::trainer {
namespace {

/// "0.weight", "0.bias", "1.weight", ..., "1.num_batches_tracked", "2.weight", "2.bias".
std::shared_ptr<nn::Module> make_small_model(std::uint64_t seed) {
  tensor::Mt19937 generator(seed);
  const nn::ConvOptions options{.kernel = 3};
  return std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Conv2d>(3, 4, options, generator), std::make_shared<nn::BatchNorm2d>(4),
      std::make_shared<nn::Linear>(4, 21, generator)});
}

class LoadParameters : public testing::Test {
 protected:
  /// The tensors of the model from another seed, which `change` may spoil, in a file.
  std::filesystem::path file_of(const std::function<void(NamedTensors&)>& change = nullptr) {
    const auto other = make_small_model(9);
    for (auto& [name, buffer] : other->named_buffers()) {
      tensor::Tensor same_memory = buffer;
      same_memory.fill(3);
    }
    NamedTensors tensors = model_tensors(*other);
    if (change) change(tensors);
    const std::filesystem::path file = folder_ / "weights.safetensors";
    write_durably(file, encode_safetensors(tensors));
    return file;
  }

  const TemporaryFolder folder_;
  const std::shared_ptr<nn::Module> model_ = make_small_model(1);
};

TEST_F(LoadParameters, AFileOfTheSameNamesIsTakenOver) {
  load_parameters(*model_, file_of());
  const NamedTensors expected = model_tensors(*make_small_model(9));
  const NamedTensors found = model_tensors(*model_);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [name, tensor] = found[i];
    if (name.find("running") != std::string::npos || name.ends_with("tracked")) {
      EXPECT_EQ(tensor.reshape({-1}).narrow(0, 0, 1).item(), 3) << name;
    } else {
      EXPECT_EQ(std::memcmp(tensor.raw(), expected[i].second.raw(), tensor.nbytes()), 0) << name;
    }
  }
}

TEST_F(LoadParameters, OlderFilesHaveNoCountOfBatches) {
  load_parameters(*model_, file_of([](NamedTensors& tensors) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with("num_batches_tracked"); });
  }));
  for (const auto& [name, buffer] : model_->named_buffers()) {
    EXPECT_EQ(buffer.reshape({-1}).narrow(0, 0, 1).item(), name.ends_with("tracked") ? 0 : 3) << name;
  }
}

TEST_F(LoadParameters, ALastLayerOfOtherClassesStaysIfThatIsAllowed) {
  const auto file = file_of([](NamedTensors& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name == "2.weight") tensor = tensor::Tensor::zeros({1000, 4});
      if (name == "2.bias") tensor = tensor::Tensor::zeros({1000});
    }
  });
  EXPECT_EQ(load_parameters(*model_, file, true), (std::vector<std::string>{"2.weight", "2.bias"}));
  const NamedTensors drawn = model_tensors(*make_small_model(1)), given = model_tensors(*make_small_model(9));
  const NamedTensors found = model_tensors(*model_);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [name, tensor] = found[i];
    if (name.starts_with("1.running") || name.ends_with("tracked")) continue;
    const NamedTensors& expected = name.starts_with("2.") ? drawn : given;
    EXPECT_EQ(std::memcmp(tensor.raw(), expected[i].second.raw(), tensor.nbytes()), 0) << name;
  }
  EXPECT_EQ(load_parameters(*model_, file_of(), true), std::vector<std::string>());
}

TEST_F(LoadParameters, WhatDoesNotFitIsNamedAndChangesNothing) {
  const auto text_of = [&](const std::function<void(NamedTensors&)>& change) {
    return error_of([&] { load_parameters(*model_, file_of(change)); });
  };
  const std::string start = (folder_ / "weights.safetensors").string();
  const std::string misfit = start + " does not fit " + model_->describe() + ": ";
  EXPECT_EQ(text_of([](NamedTensors& tensors) { tensors.erase(tensors.begin()); }), misfit + "it lacks \"0.weight\"");
  EXPECT_EQ(text_of([](NamedTensors& tensors) {
              for (auto& [name, tensor] : tensors) {
                if (name == "2.bias") name = "head.bias";
              }
            }),
            misfit + "it lacks \"2.bias\"; the model has no \"head.bias\"");
  EXPECT_EQ(
      text_of([](NamedTensors& tensors) {
        tensors = {{"x", tensor::Tensor::zeros({1})}};
      }),
      misfit +
          "it lacks \"0.weight\", \"0.bias\", \"1.weight\", \"1.bias\", \"2.weight\" and 3 more; the model has no "
          "\"x\"");
  EXPECT_EQ(text_of([](NamedTensors& tensors) {
              for (auto& [name, tensor] : tensors) {
                if (name == "2.weight") tensor = tensor::Tensor::zeros({1000, 4});
              }
            }),
            start + ": the tensor \"2.weight\" is float32 (1000, 4), expected float32 (21, 4)");
  const NamedTensors before = model_tensors(*make_small_model(1));
  const NamedTensors after = model_tensors(*model_);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(std::memcmp(before[i].second.raw(), after[i].second.raw(), before[i].second.nbytes()), 0);
  }
}

}  // namespace
}  // namespace tutti::trainer
