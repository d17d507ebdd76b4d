#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>

#include <cstring>
#include <ctime>
#include <functional>
#include <random>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Shape;
using tensor::Tensor;

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string error_for(const std::string& header, std::size_t data_bytes) {
  return error_of([&] { decode_safetensors(file_of(header, std::string(data_bytes, '\0')), "F"); });
}

// The byte layout that the format's description prints, with a type we have (its example is int32).
TEST(Safetensors, GoldenFile) {
  const std::string header = R"({"test":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  ASSERT_EQ(header.size(), 0x3cu);
  const std::string golden = file_of(header + "    ", std::string(16, '\0'));  // padded to 64
  EXPECT_EQ(encode_safetensors({{"test", Tensor::zeros(Shape{2, 2})}}), golden);
  // The reference file itself is not padded; readers take both.
  const auto read = decode_safetensors(file_of(header, std::string(16, '\0')), "F");
  ASSERT_EQ(read.tensors.size(), 1u);
  EXPECT_EQ(read.tensors[0].first, "test");
  EXPECT_EQ(read.tensors[0].second.shape(), (Shape{2, 2}));
}

TEST(Safetensors, RoundTripOfEveryType) {
  const NamedTensors tensors{{"u8", Tensor::from<std::uint8_t>(Shape{3}, {1, 2, 255})},
                             {"f32", Tensor::from<float>(Shape{2, 1}, {1.5F, -0.0F})},
                             {"i64", Tensor::from<std::int64_t>(Shape{2}, {-1, std::int64_t{1} << 62})},
                             {"f64", Tensor::from<double>(Shape{}, {3.25})},
                             {"empty", Tensor::empty(Shape{0, 5})}};
  const auto read = decode_safetensors(encode_safetensors(tensors, {{"format", "pt"}, {"\"odd\" \n", "ä"}}), "F");
  EXPECT_EQ(read.metadata.at("format"), "pt");
  EXPECT_EQ(read.metadata.at("\"odd\" \n"), "ä");
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto found =
        std::find_if(read.tensors.begin(), read.tensors.end(), [&](const auto& t) { return t.first == name; });
    ASSERT_NE(found, read.tensors.end()) << name;
    EXPECT_EQ(found->second.dtype(), tensor.dtype());
    EXPECT_EQ(found->second.shape(), tensor.shape());
    EXPECT_TRUE(tensor.nbytes() == 0 || std::memcmp(found->second.raw(), tensor.raw(), tensor.nbytes()) == 0) << name;
  }
}

TEST(Safetensors, ViewsArePackedAndOrderOfArgumentsDoesNotMatter) {
  const Tensor matrix = Tensor::from<float>(Shape{2, 2}, {1, 2, 3, 4});
  const auto read = decode_safetensors(encode_safetensors({{"t", matrix.transpose(0, 1)}}), "F");
  const Tensor& t = read.tensors[0].second;
  EXPECT_EQ(std::vector<float>(t.data<float>(), t.data<float>() + 4), (std::vector<float>{1, 3, 2, 4}));
  const Tensor bytes = Tensor::zeros(Shape{3}, DType::UInt8);
  EXPECT_EQ(encode_safetensors({{"a", bytes}, {"b", matrix}}), encode_safetensors({{"b", matrix}, {"a", bytes}}));
}

TEST(Safetensors, WriterRefusesBadNames) {
  const Tensor t = Tensor::zeros(Shape{1});
  EXPECT_THROW(encode_safetensors({{"a", t}, {"a", t}}), std::invalid_argument);
  EXPECT_THROW(encode_safetensors({{"__metadata__", t}}), std::invalid_argument);
}

TEST(Safetensors, FileOnDisk) {
  const TemporaryFolder folder;
  replace_file(folder / "a.safetensors", encode_safetensors({{"x", Tensor::full(Shape{4}, 2.0)}}));
  EXPECT_EQ(read_safetensors(folder / "a.safetensors").tensors.at(0).second.data<float>()[3], 2.0F);
  replace_file(folder / "a.safetensors", "short");
  const std::string text = error_of([&] { read_safetensors(folder / "a.safetensors"); });
  test::expect_parts(text, {"a.safetensors"});
}

TEST(Safetensors, EveryDefectIsNamed) {
  struct Case {
    const char* header;
    std::size_t data_bytes;
    const char* expected;
  };
  const Case cases[] = {
      {R"([])", 0, "does not start with '{'"},
      {R"( {})", 0, "does not start with '{'"},
      {R"({"a":)", 0, "not valid JSON"},
      {R"({"a":1})", 0, "\"a\" is not described by an object"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "lacks \"data_offsets\""},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}})", 4, "unknown key \"x\""},
      {R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 4, "has type BF16"},
      {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,4]}})", 4, "\"dtype\" is not a text"},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,4]}})", 4, "\"shape\" is not a list"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "whole number"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "whole number"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "7 dimensions"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", 4, "too large"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "tensor \"a\": "},
      {R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", 0, "tensor \"a\": "},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "do not span"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "do not span"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "not a pair"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "starts at byte 4 of the data, expected 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "starts at byte 0 of the data, expected 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "describes 4 bytes of data, the file holds 8"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "describes 8 bytes of data, the file holds 4"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
       8, "\"a\" appears twice"},
      {R"({"__metadata__":{"a":1}})", 0, "is not a text"},
      {R"({"__metadata__":[]})", 0, "\"__metadata__\" is not an object"},
      {R"({"a":{"dtype":"F32","shape":[[[[[[1]]]]]],"data_offsets":[0,4]}})", 4, "nested too deeply"},
  };
  for (const Case& c : cases) {
    const std::string text = error_for(c.header, c.data_bytes);
    EXPECT_NE(text.find(c.expected), std::string::npos) << c.header << "\n  gave: " << text;
    EXPECT_EQ(text.rfind("F: ", 0), 0u) << text;
  }
}

TEST(Safetensors, ManyTensorsTakeLinearTime) {
  constexpr std::size_t kTensors = 100'000;  // quadratic: 20 s
  NamedTensors tensors;
  for (std::size_t i = 0; i < kTensors; ++i)
    tensors.emplace_back("layer." + std::to_string(i), Tensor::zeros(Shape{1}));
  const std::clock_t start = std::clock();
  EXPECT_EQ(decode_safetensors(encode_safetensors(tensors, {}), "F").tensors.size(), kTensors);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 8);
}

TEST(Safetensors, LengthsAreCheckedBeforeMemoryIsTaken) {
  std::string bytes(8, '\xff');
  test::expect_parts(error_of([&] { decode_safetensors(bytes, "F"); }), {"announces a header"});
  test::expect_parts(error_of([&] { decode_safetensors("abc", "F"); }), {"3 bytes long"});
  test::expect_parts(error_for(R"({"a":{"dtype":"F64","shape":[1000000000000],"data_offsets":[0,8000000000000]}})", 8),
                     {"the file holds 8"});
}

// Damaged files are refused or read, never a crash: 30,000 mutations of a valid one.
TEST(Safetensors, MutatedFilesNeverCrash) {
  const std::string valid = encode_safetensors(
      {{"1.weight", Tensor::zeros(Shape{3, 4})}, {"step", Tensor::zeros(Shape{}, DType::Int64)}}, {{"format", "pt"}});
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string bytes = valid;
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      const std::size_t place = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[place] = static_cast<char>(random());
          break;
        case 1:
          bytes[place] = "{}[]\",:0919-e."[random() % 14];
          break;
        case 2:
          bytes.erase(place, 1 + random() % 8);
          break;
        default:
          bytes.insert(place, valid.substr(random() % valid.size(), random() % 16));
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    try {
      decode_safetensors(bytes, "F");
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 20000);
}

TEST(Safetensors, DeepNestingIsRefusedQuickly) {
  const std::string text = error_for("{\"a\":" + std::string(1000000, '['), 0);
  EXPECT_FALSE(text.empty());
}

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
    replace_file(file, encode_safetensors(tensors));
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
            misfit + "it lacks \"2.bias\"; there is no tensor here for its \"head.bias\"");
  EXPECT_EQ(text_of([](NamedTensors& tensors) {
              tensors = {{"x", tensor::Tensor::zeros({1})}};
            }),
            misfit +
                "it lacks \"0.weight\", \"0.bias\", \"1.weight\", \"1.bias\", \"2.weight\" and 3 more; there is no "
                "tensor here for its \"x\"");
  EXPECT_EQ(text_of([](NamedTensors& tensors) {
              for (auto& [name, tensor] : tensors) {
                if (name == "2.weight") tensor = tensor::Tensor::zeros({1000, 4});
              }
            }),
            misfit + "the tensor \"2.weight\" is float32 (1000, 4), expected float32 (21, 4)");
  const NamedTensors before = model_tensors(*make_small_model(1));
  const NamedTensors after = model_tensors(*model_);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(std::memcmp(before[i].second.raw(), after[i].second.raw(), before[i].second.nbytes()), 0);
  }
}

}  // namespace
}  // namespace tutti::trainer
