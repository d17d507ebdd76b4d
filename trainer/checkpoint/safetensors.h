// safetensors: named tensors in one file, read by PyTorch, JAX and others without running any code.
//
//   u64 little endian N | N bytes of JSON | data
//   {"1.weight": {"dtype": "F32", "shape": [50, 784], "data_offsets": [0, 156800]}, ..., "__metadata__": {"key":
//   "text"}}
//
// Source of the format: https://github.com/huggingface/safetensors (README.md, "Format").
//
// The writer pads the header with spaces so that the data starts at a multiple of 8, and lays tensors out by descending
// element size, then by name, as the reference writer does; so equal contents give equal bytes. The reader is strict:
// every length is compared with what is there before memory is taken, and holes, overlaps, repeated names, unknown
// types and left-over bytes are errors that name the file and the tensor. Types: F32, F64, I64, U8. Thread-safety: pure
// functions.
#pragma once

#include <tutti/tensor/tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::trainer {

using NamedTensors = std::vector<std::pair<std::string, tensor::Tensor>>;

struct Safetensors {
  NamedTensors tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

/// The file's bytes. Tensors may be views; they are packed row-major. Throws std::invalid_argument for a repeated name
/// and for the reserved name "__metadata__".
/// `memory` is used again for them.
std::string encode_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata = {},
                               std::string memory = {});

/// `origin` is put in front of error texts (a file name). Throws std::runtime_error.
Safetensors decode_safetensors(std::string_view bytes, const std::string& origin);

/// Throws std::runtime_error naming the file.
Safetensors read_safetensors(const std::filesystem::path& file);

}  // namespace tutti::trainer
