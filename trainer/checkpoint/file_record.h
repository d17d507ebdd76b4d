// What state.json knows about a safetensors file of its checkpoint: enough to prove it whole, and to say what is wrong
// when it is not.
//
// sha256 covers every byte of the file and is what counts (`sha256sum` gives the same). The crc32 of each tensor's
// bytes (zlib's, as of RFC 1952) is looked at only after it failed, to name the tensor. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti::trainer {

/// A checkpoint that is not what was written: a file of it is missing, cut short, or has other bytes. what() names the
/// file and, where it can be told, the tensors. An earlier checkpoint may be whole.
class DamagedCheckpoint : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct FileRecord {
  std::uint64_t nbytes = 0;
  std::string sha256;                        // lower-case hex
  std::map<std::string, std::string> crc32;  // by tensor, 8 lower-case hex digits; empty in old checkpoints
};

/// `bytes` as encode_safetensors made them.
FileRecord record_of(std::string_view bytes);

/// "" if `bytes` are those that `record` was made of; else what is wrong with them.
std::string damage_in(std::string_view bytes, const FileRecord& record);

}  // namespace tutti::trainer
