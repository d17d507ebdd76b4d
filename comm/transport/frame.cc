#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/frame.h>

#include <bit>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::uint16_t kMagic = 0x5475;  // "uT" in memory order
constexpr std::uint8_t kVersion = 1;

template <typename T>
void put(FrameBytes& bytes, std::size_t offset, T value) {
  static_assert(std::endian::native == std::endian::little, "the wire is little endian; swap here for another host");
  static_assert(sizeof(T) <= 8);
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

template <typename T>
T take(std::span<const std::byte, kFrameHeaderBytes> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

}  // namespace

std::string Fingerprint::to_string() const {
  std::string text(name(op));
  const bool point_to_point = op == OpKind::Send || op == OpKind::Recv;
  if (!point_to_point) text += " seq " + std::to_string(seq);
  if (op == OpKind::Barrier || op == OpKind::Shutdown) return text;
  text += " (";
  if (op == OpKind::Reduce || op == OpKind::AllReduce) text += std::string(name(reduce_op)) + " ";
  text += std::string(name(dtype)) + " x " + std::to_string(count);
  if (point_to_point) text += ", tag " + std::to_string(root);
  if (op == OpKind::Broadcast || op == OpKind::Reduce || op == OpKind::Gather || op == OpKind::Scatter)
    text += ", root " + std::to_string(root);
  return text + ")";
}

FrameBytes encode(const FrameHeader& header) {
  FrameBytes bytes{};
  put(bytes, 0, kMagic);
  put(bytes, 2, kVersion);
  put(bytes, 3, header.kind);
  put(bytes, 4, header.fingerprint.op);
  put(bytes, 5, header.fingerprint.dtype);
  put(bytes, 6, header.fingerprint.reduce_op);
  put(bytes, 8, header.fingerprint.root);
  put(bytes, 16, header.fingerprint.group);
  put(bytes, 24, header.fingerprint.seq);
  put(bytes, 32, header.fingerprint.count);
  put(bytes, 40, header.nbytes);
  put(bytes, 48, header.id);
  return bytes;
}

FrameHeader decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  FrameHeader header;
  const auto kind = take<std::uint8_t>(bytes, 3);
  const auto op = take<std::uint8_t>(bytes, 4);
  const auto dtype = take<std::uint8_t>(bytes, 5);
  const auto reduce_op = take<std::uint8_t>(bytes, 6);
  header.nbytes = take<std::uint64_t>(bytes, 40);
  const bool good = take<std::uint16_t>(bytes, 0) == kMagic && take<std::uint8_t>(bytes, 2) == kVersion && kind >= 1 &&
                    kind <= static_cast<std::uint8_t>(FrameKind::Rendezvous) &&
                    op <= static_cast<std::uint8_t>(OpKind::Recv) && dtype <= static_cast<std::uint8_t>(DType::UInt8) &&
                    reduce_op <= static_cast<std::uint8_t>(ReduceOp::Max) && header.nbytes <= kMaxFrameBytes;
  if (!good)
    throw Error(ErrorCode::Protocol, "received bytes that are no frame header of version " + std::to_string(kVersion) +
                                         ": " + hex(bytes.first(16)) + "...");
  header.kind = static_cast<FrameKind>(kind);
  header.fingerprint.op = static_cast<OpKind>(op);
  header.fingerprint.dtype = static_cast<DType>(dtype);
  header.fingerprint.reduce_op = static_cast<ReduceOp>(reduce_op);
  header.fingerprint.root = take<std::int32_t>(bytes, 8);
  header.fingerprint.group = take<std::uint64_t>(bytes, 16);
  header.fingerprint.seq = take<std::uint64_t>(bytes, 24);
  header.fingerprint.count = take<std::uint64_t>(bytes, 32);
  header.id = take<std::uint64_t>(bytes, 48);
  return header;
}

}  // namespace tutti::comm
