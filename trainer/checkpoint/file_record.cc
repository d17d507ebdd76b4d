#include <tutti/trainer/checkpoint/file_record.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/checkpoint/sha256.h>
#include <zlib.h>

#include <cstdio>
#include <cstring>

namespace tutti::trainer {
namespace {

std::string sha256_of_bytes(std::string_view bytes) { return hex(Sha256().add(bytes.data(), bytes.size()).digest()); }

std::string crc32_of_bytes(std::string_view bytes) {
  const auto sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  char text[16];
  std::snprintf(text, sizeof text, "%08lx", static_cast<unsigned long>(sum));
  return text;
}

/// The crc32 of every tensor. Throws std::runtime_error when the header cannot be read.
std::map<std::string, std::string> crc32_of_tensors(std::string_view bytes) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) throw std::runtime_error("no header");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  bytes.remove_prefix(sizeof header_bytes);
  if (header_bytes > bytes.size()) throw std::runtime_error("no header");
  const std::string_view data = bytes.substr(header_bytes);
  std::map<std::string, std::string> sums;
  for (const SafetensorsEntry& entry : parse_safetensors_header(bytes.substr(0, header_bytes), data.size()).entries) {
    sums[entry.name] = crc32_of_bytes(data.substr(entry.begin, entry.end - entry.begin));
  }
  return sums;
}

/// Names the tensors whose bytes have changed; "" where that cannot be told.
std::string changed_tensors(std::string_view bytes, const FileRecord& record) {
  std::map<std::string, std::string> found;
  try {
    found = crc32_of_tensors(bytes);
  } catch (const std::runtime_error&) {
    return "its header cannot be read";
  }
  constexpr int kMostNamed = 5;
  int changed = 0;
  std::string list;
  for (const auto& [name, sum] : record.crc32) {
    const auto now = found.find(name);
    if (now != found.end() && now->second == sum) continue;
    if (++changed > kMostNamed) continue;
    list += (list.empty() ? "the tensor \"" : ", \"") + name + "\"";
    list += now == found.end() ? " is missing" : " has crc32 " + now->second + " in place of " + sum;
  }
  if (changed > kMostNamed) list += ", and " + std::to_string(changed - kMostNamed) + " more";
  return changed == 0 && !record.crc32.empty() ? "its header has changed" : list;
}

}  // namespace

FileRecord record_of(std::string_view bytes) {
  return {.nbytes = bytes.size(), .sha256 = sha256_of_bytes(bytes), .crc32 = crc32_of_tensors(bytes)};
}

std::string damage_in(std::string_view bytes, const FileRecord& record) {
  if (record.nbytes != 0 && bytes.size() != record.nbytes) {
    return "it is " + std::to_string(bytes.size()) + " bytes long, state.json says " + std::to_string(record.nbytes);
  }
  const std::string found = sha256_of_bytes(bytes);
  if (found == record.sha256) return "";
  const std::string changed = changed_tensors(bytes, record);
  return (changed.empty() ? "" : changed + "; ") + "its sha256 is " + found + ", state.json says " + record.sha256;
}

}  // namespace tutti::trainer
