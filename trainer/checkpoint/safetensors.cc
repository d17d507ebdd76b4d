#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/safetensors.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace tutti::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is written as it lies in memory");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
constexpr std::size_t kHeaderAlignment = 8;

const char* format_name(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::Float32:
      return "F32";
    case tensor::DType::Float64:
      return "F64";
    case tensor::DType::Int64:
      return "I64";
    case tensor::DType::UInt8:
      return "U8";
  }
  throw std::logic_error("unknown dtype " + std::to_string(static_cast<int>(dtype)));
}

NamedTensors in_file_order(NamedTensors tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") throw std::invalid_argument("safetensors: the name \"__metadata__\" is reserved");
    if (!names.insert(name).second) throw std::invalid_argument("safetensors: two tensors are named \"" + name + "\"");
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const auto size_a = tensor::size_of(a.second.dtype());
    const auto size_b = tensor::size_of(b.second.dtype());
    return size_a != size_b ? size_a > size_b : a.first < b.first;
  });
  return tensors;
}

std::string header_text(const NamedTensors& ordered, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  auto& entries = json.get_ref<nlohmann::ordered_json::object_t&>();
  std::uint64_t position = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t end = position + tensor.nbytes();
    const auto extents = tensor.shape().extents();
    nlohmann::ordered_json entry = {{"dtype", format_name(tensor.dtype())},
                                    {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                                    {"data_offsets", {position, end}}};
    entries.emplace_back(name, std::move(entry));  // names differ: operator[] would look at all of them
    position = end;
  }
  std::string text = json.dump();
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  return text;
}

}  // namespace

void encode_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                        std::string& bytes) {
  const NamedTensors ordered = in_file_order(tensors);
  const std::string header = header_text(ordered, metadata);
  const std::uint64_t header_bytes = header.size();
  std::size_t total = sizeof header_bytes + header.size();
  for (const auto& [name, tensor] : ordered) total += tensor.nbytes();
  bytes.clear();
  bytes.reserve(total);
  bytes.append(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  bytes += header;
  for (const auto& [name, tensor] : ordered) {
    const tensor::Tensor packed = tensor.contiguous().on_host();
    if (packed.nbytes() > 0) bytes.append(static_cast<const char*>(packed.raw()), packed.nbytes());
  }
}

std::string encode_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  std::string bytes;
  encode_safetensors(tensors, metadata, bytes);
  return bytes;
}

Safetensors decode_safetensors(std::string_view bytes, const std::string& origin) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) {
    throw std::runtime_error(origin + ": not a safetensors file: only " + std::to_string(bytes.size()) + " bytes long");
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  bytes.remove_prefix(sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size()) {
    throw std::runtime_error(origin + ": not a safetensors file, or cut short: it announces a header of " +
                             std::to_string(header_bytes) + " bytes, " + std::to_string(bytes.size()) + " follow");
  }
  const std::string_view data = bytes.substr(header_bytes);
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(bytes.substr(0, header_bytes), data.size());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(origin + ": " + error.what());
  }
  Safetensors result{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const SafetensorsEntry& entry : header.entries) {
    tensor::Tensor tensor = tensor::Tensor::empty(entry.shape, entry.dtype);
    if (entry.end > entry.begin) std::memcpy(tensor.raw(), data.data() + entry.begin, entry.end - entry.begin);
    result.tensors.emplace_back(entry.name, std::move(tensor));
  }
  return result;
}

Safetensors read_safetensors(const std::filesystem::path& file) {
  return decode_safetensors(read_whole_file(file), file.string());
}

}  // namespace tutti::trainer
