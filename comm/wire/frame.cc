#include <tutti/comm/base/counts.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/frame.h>
#include <tutti/comm/wire/printable.h>

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

/// Which field makes these bytes no header; empty if they are one.
std::string fault_in(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const auto small = [&](std::size_t offset) { return std::to_string(take<std::uint8_t>(bytes, offset)); };
  if (take<std::uint16_t>(bytes, 0) != kMagic) return "wrong magic";
  if (take<std::uint8_t>(bytes, 2) != kVersion)
    return "version " + small(2) + " instead of " + std::to_string(kVersion) + "; build both sides from one release";
  const auto kind = take<std::uint8_t>(bytes, 3);
  if (kind < 1 || kind > static_cast<std::uint8_t>(FrameKind::Rendezvous)) return "unknown kind " + small(3);
  if (take<std::uint8_t>(bytes, 4) > static_cast<std::uint8_t>(kLastOpKind)) return "unknown operation " + small(4);
  if (take<std::uint8_t>(bytes, 5) > static_cast<std::uint8_t>(kLastDType)) return "unknown dtype " + small(5);
  if (take<std::uint8_t>(bytes, 6) > static_cast<std::uint8_t>(kLastReduceOp)) return "unknown operator " + small(6);
  const bool user_op = take<ReduceOp>(bytes, 6) == ReduceOp::User;
  if (take<std::uint8_t>(bytes, 7) > 1 || (!user_op && take<std::uint32_t>(bytes, 12) != 0))
    return "reserved bits are not zero";
  const auto nbytes = take<std::uint64_t>(bytes, 40);
  if (nbytes > kMaxFrameBytes) return "payload of " + std::to_string(nbytes) + " bytes is over the limit";
  return {};
}

}  // namespace

std::string Fingerprint::to_string() const {
  std::string text(name(op));
  const bool point_to_point = op == OpKind::Send || op == OpKind::Recv;
  if (!point_to_point) text += " seq " + std::to_string(seq);
  if (op == OpKind::Barrier || op == OpKind::Shutdown || op == OpKind::Split) return text;
  text += " (";
  if (is_reduction(op)) text += std::string(name(reduce_op)) + " ";
  if (is_reduction(op) && reduce_op == ReduceOp::User) text += "operator " + hex(user_op).substr(10) + " ";
  if (has_counts(op)) {
    text += std::string(name(dtype)) + " x " + std::to_string(total_of(count)) + ", checksum of counts " +
            std::to_string(checksum_of(count));
  } else if (op == OpKind::AllToAllV) {
    text += name(dtype);
  } else {
    text += std::string(name(dtype)) + " x " + std::to_string(count);
  }
  if (point_to_point) text += ", tag " + std::to_string(root);
  if (op == OpKind::AllReduce && root == kRounded) text += ", rounded to float32";
  if (op == OpKind::Broadcast || op == OpKind::Reduce || op == OpKind::Gather || op == OpKind::Scatter ||
      op == OpKind::GatherV || op == OpKind::ScatterV)
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
  put<std::uint8_t>(bytes, 7, header.acknowledge ? 1 : 0);
  put(bytes, 8, header.fingerprint.root);
  put(bytes, 12, header.fingerprint.user_op);
  put(bytes, 16, header.fingerprint.group);
  put(bytes, 24, header.fingerprint.seq);
  put(bytes, 32, header.fingerprint.count);
  put(bytes, 40, header.nbytes);
  put(bytes, 48, header.id);
  return bytes;
}

FrameHeader decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  if (const std::string fault = fault_in(bytes); !fault.empty())
    throw Error(ErrorCode::Protocol,
                "received bytes that are no frame header (" + fault + "): " + quote_bytes(bytes, bytes.size()));
  FrameHeader header;
  header.kind = take<FrameKind>(bytes, 3);
  header.fingerprint.op = take<OpKind>(bytes, 4);
  header.fingerprint.dtype = take<DType>(bytes, 5);
  header.fingerprint.reduce_op = take<ReduceOp>(bytes, 6);
  header.acknowledge = take<std::uint8_t>(bytes, 7) != 0;
  header.fingerprint.root = take<std::int32_t>(bytes, 8);
  header.fingerprint.user_op = take<std::uint32_t>(bytes, 12);
  header.fingerprint.group = take<std::uint64_t>(bytes, 16);
  header.fingerprint.seq = take<std::uint64_t>(bytes, 24);
  header.fingerprint.count = take<std::uint64_t>(bytes, 32);
  header.nbytes = take<std::uint64_t>(bytes, 40);
  header.id = take<std::uint64_t>(bytes, 48);
  return header;
}

}  // namespace tutti::comm
