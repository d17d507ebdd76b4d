#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/safetensors.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_set>
#include <vector>

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

std::string encode_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                               std::string memory) {
  std::string bytes = std::move(memory);
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
  return bytes;
}

// Parsing and checking of the JSON header. Every field comes from outside and is checked before it is used.

namespace {

using Json = nlohmann::json;

struct Entry {
  std::string name;
  tensor::DType dtype = tensor::DType::Float32;
  tensor::Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

std::optional<tensor::DType> dtype_of(const std::string& text) {
  if (text == "F32") return tensor::DType::Float32;
  if (text == "F64") return tensor::DType::Float64;
  if (text == "I64") return tensor::DType::Int64;
  if (text == "U8") return tensor::DType::UInt8;
  return std::nullopt;
}

/// Finds names that appear twice in one object, where it is open which of them counts, and nesting deeper than the
/// format's three levels. (json::parse with a callback looks at all members of an object after each one.)
class Strictness final : public nlohmann::json_sax<Json> {
 public:
  std::string problem;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) problem = "the name \"" + name + "\" appears twice";
    return problem.empty();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    problem = "the header is not valid JSON";
    return false;
  }

 private:
  bool begin() {
    names_.emplace_back();
    if (names_.size() > 4) problem = "the header is nested too deeply";
    return problem.empty();
  }
  bool end() {
    names_.pop_back();
    return true;
  }

  std::vector<std::unordered_set<std::string>> names_;
};

Json parse_strictly(std::string_view text) {
  Strictness strictness;
  Json::sax_parse(text, &strictness);
  if (!strictness.problem.empty()) fail(strictness.problem);
  return Json::parse(text);
}

std::uint64_t whole_number(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned()) fail(what + " is not a whole number of at least 0");
  return value.get<std::uint64_t>();
}

tensor::Shape parse_shape(const Json& value, const std::string& name) {
  if (!value.is_array()) fail("tensor \"" + name + "\": \"shape\" is not a list");
  if (value.size() > static_cast<std::size_t>(tensor::kMaxRank)) {
    fail("tensor \"" + name + "\" has " + std::to_string(value.size()) + " dimensions; at most " +
         std::to_string(tensor::kMaxRank) + " are supported");
  }
  std::vector<std::int64_t> extents;
  for (const Json& extent : value) {
    const std::uint64_t number = whole_number(extent, "tensor \"" + name + "\": an extent in \"shape\"");
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail("tensor \"" + name + "\": extent " + std::to_string(number) + " is too large");
    }
    extents.push_back(static_cast<std::int64_t>(number));
  }
  try {
    return tensor::Shape(std::span<const std::int64_t>(extents));
  } catch (const std::invalid_argument& error) {
    fail("tensor \"" + name + "\": " + error.what());
  }
}

/// shape x element size in bytes. Nothing when that does not fit 63 bits even with empty extents counted as 1: strides
/// are such products too.
std::optional<std::uint64_t> bytes_of(const tensor::Shape& shape, tensor::DType dtype) {
  auto bytes = static_cast<std::int64_t>(tensor::size_of(dtype));
  bool empty = false;
  for (const std::int64_t extent : shape.extents()) {
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

Entry parse_entry(const std::string& name, const Json& value) {
  const std::string who = "tensor \"" + name + "\"";
  if (!value.is_object()) fail(who + " is not described by an object");
  for (const auto& [key, unused] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") fail(who + " has an unknown key \"" + key + "\"");
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) fail(who + " lacks \"" + key + "\"");
  }
  if (!value["dtype"].is_string()) fail(who + ": \"dtype\" is not a text");
  const auto dtype = dtype_of(value["dtype"].get<std::string>());
  if (!dtype) {
    fail(who + " has type " + value["dtype"].get<std::string>() + "; supported are F32, F64, I64 and U8");
  }
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) fail(who + ": \"data_offsets\" is not a pair");
  Entry entry{.name = name,
              .dtype = *dtype,
              .shape = parse_shape(value["shape"], name),
              .begin = whole_number(offsets[0], who + ": a data offset"),
              .end = whole_number(offsets[1], who + ": a data offset")};
  const auto expected = bytes_of(entry.shape, entry.dtype);
  if (entry.end < entry.begin || !expected || entry.end - entry.begin != *expected) {
    fail(who + ": data offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
         ") do not span the bytes of its shape and type");
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(const Json& value) {
  if (!value.is_object()) fail("\"__metadata__\" is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) fail("\"__metadata__\": the value of \"" + key + "\" is not a text");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// By begin.
std::vector<Entry> parse_header(std::string_view json, std::uint64_t data_bytes,
                                std::map<std::string, std::string>& metadata) {
  if (json.empty() || json.front() != '{') fail("the header does not start with '{'");
  std::vector<Entry> entries;
  const Json parsed = parse_strictly(json);
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") {
      metadata = parse_metadata(value);
    } else {
      entries.push_back(parse_entry(name, value));
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != position) {
      fail("tensor \"" + entry.name + "\" starts at byte " + std::to_string(entry.begin) + " of the data, expected " +
           std::to_string(position));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    fail("the header describes " + std::to_string(position) + " bytes of data, the file holds " +
         std::to_string(data_bytes));
  }
  return entries;
}

Safetensors decode(std::string_view bytes) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) {
    fail("not a safetensors file: only " + std::to_string(bytes.size()) + " bytes long");
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  bytes.remove_prefix(sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size()) {
    fail("not a safetensors file, or cut short: it announces a header of " + std::to_string(header_bytes) + " bytes, " +
         std::to_string(bytes.size()) + " follow");
  }
  const std::string_view data = bytes.substr(header_bytes);
  Safetensors result;
  for (const Entry& entry : parse_header(bytes.substr(0, header_bytes), data.size(), result.metadata)) {
    tensor::Tensor tensor = tensor::Tensor::empty(entry.shape, entry.dtype);
    if (entry.end > entry.begin) std::memcpy(tensor.raw(), data.data() + entry.begin, entry.end - entry.begin);
    result.tensors.emplace_back(entry.name, std::move(tensor));
  }
  return result;
}

}  // namespace

Safetensors decode_safetensors(std::string_view bytes, const std::string& origin) {
  try {
    return decode(bytes);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(origin + ": " + error.what());
  }
}

Safetensors read_safetensors(const std::filesystem::path& file) {
  return decode_safetensors(read_whole_file(file), file.string());
}

}  // namespace tutti::trainer
