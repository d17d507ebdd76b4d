// TorchRequestReader: bytes of a PyTorch TCPStore client, cut into requests. Pure: no sockets.
//
// The protocol has no frames and no version number: a code of one byte, then numbers (little-endian), strings and byte
// vectors (a 64-bit length, then the bytes). Two generations are told apart by a connection's first bytes:
//   Modern   since 2.1: 00 and a magic number first (VALIDATE); codes as below
//   Legacy   1.8 to 2.0: no VALIDATE; SET to GETNUMKEYS are one less than below, 7 is WATCH_KEY, the rest is equal
// Every length is compared with a limit before memory is taken, and memory is taken for bytes that have come, not for
// those that are announced. Thread-safety: one thread at a time. Source: torch/csrc/distributed/c10d/TCPStore.cpp and
// TCPStoreBackend.hpp of https://github.com/pytorch/pytorch, read for facts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

inline constexpr std::uint32_t kTorchMagic = 0x3C85F7CE;
inline constexpr std::size_t kMaxTorchRequestBytes = std::size_t{80} << 20;  // one value at its limit, and then some

/// The modern generation's codes.
enum class TorchQuery : std::uint8_t {
  Validate,
  Set,
  CompareSet,
  Get,
  Add,
  Check,
  Wait,
  NumKeys,
  DeleteKey,
  Append,
  MultiGet,
  MultiSet,
  CancelWait,
  Ping,
  ListKeys = 17,  // 14 to 16 are queues, which are not offered here
  Barrier,
};

enum class TorchGeneration { Unknown, Legacy, Modern };

struct TorchRequest {
  TorchQuery query = TorchQuery::Validate;
  std::vector<std::string> strings{};  // keys and values in the order in which they come
  std::int64_t number = 0;             // of Add, Barrier, Ping
};

class TorchRequestReader {
 public:
  /// Takes whole fields until a request is complete or the next field is not; returns how many bytes, and is to be
  /// given the others again, with more. Takes none while a request is ready. Throws Error{Protocol} for what no client
  /// sends, and for lengths over their limits; then the stream is of no use.
  std::size_t feed(std::string_view bytes);

  /// The request that is complete, once.
  std::optional<TorchRequest> take();

  TorchGeneration generation() const { return generation_; }
  /// Bytes taken of a request that is not complete.
  std::size_t held_bytes() const { return request_bytes_; }

 private:
  bool is_ready() const { return begun_ && fields_.empty(); }
  std::size_t open(std::string_view bytes);
  std::size_t next_bytes(std::string_view bytes) const;
  void take_code(std::uint8_t code);
  void take_field(std::string_view bytes);

  TorchGeneration generation_ = TorchGeneration::Unknown;
  bool begun_ = false;        // the code has come
  std::string_view fields_;   // those that are still to come in this round, a letter each; see the table in the source
  std::uint64_t rounds_ = 0;  // how often all fields of a list's entry are still to come after these
  std::size_t request_bytes_ = 0;
  TorchRequest request_;
};

/// Replies are made of these.
std::string torch_number(std::uint64_t value, std::size_t nbytes = 8);
std::string torch_bytes(std::string_view bytes);

}  // namespace tutti::comm
