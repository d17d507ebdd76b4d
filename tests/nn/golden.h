// Reads the golden files (golden/make_goldens.py says how they are written).
#pragma once

#include <tutti/tensor/tensor.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::nn::test {

using Golden = std::map<std::string, std::vector<double>>;

inline Golden read_golden(const std::string& file) {
  const std::string path = std::filesystem::path(TUTTI_NN_GOLDEN) / file;
  std::ifstream in(path);
  Golden golden;
  std::string name;
  for (std::size_t count = 0; in >> name >> count;) {
    std::vector<double>& values = golden[name];
    for (std::string text; values.size() < count && in >> text;) {
      values.push_back(std::strtod(text.c_str(), nullptr));
    }
    if (values.size() != count) {
      throw std::runtime_error(path + ": '" + name + "' is cut short");
    }
  }
  if (golden.empty()) {
    throw std::runtime_error(path + ": holds nothing");
  }
  return golden;
}

/// The inputs that both sides make: ((7 r + 3 c) mod 11 - 5) * scale, float32 (rows, columns).
inline tensor::Tensor grid(std::int64_t rows, std::int64_t columns, double scale) {
  tensor::Tensor values = tensor::Tensor::empty({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      values.data<float>()[r * columns + c] = static_cast<float>(static_cast<double>((7 * r + 3 * c) % 11 - 5) * scale);
    }
  }
  return values;
}

inline std::vector<double> to_vector(const tensor::Tensor& values) {
  const float* const begin = values.data<float>();
  return {begin, begin + values.numel()};
}

}  // namespace tutti::nn::test
