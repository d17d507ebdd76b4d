#include <tutti/comm/base/counts.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/frame.h>
#include <tutti/comm/wire/printable.h>

#include <bit>
#include <cstring>

namespace tutti::comm {
namespace {

/// A header as it travels: wire_format.md, "Data frames".
struct WireHeader {
  std::uint16_t magic = 0x5475;  // "uT" in memory order
  std::uint8_t version = 1;
  FrameKind kind{};
  OpKind op{};
  DType dtype{};
  ReduceOp reduce_op{};
  std::uint8_t acknowledge = 0;
  std::int32_t root = 0;
  std::uint32_t user_op = 0;
  std::uint64_t group = 0, seq = 0, count = 0, nbytes = 0, id = 0, bulk_tag = 0;
};
static_assert(sizeof(WireHeader) == kFrameHeaderBytes);
static_assert(std::endian::native == std::endian::little, "the wire is little endian; swap here for another host");

/// Which field makes this no header; empty if it is one.
std::string fault_in(const WireHeader& header) {
  constexpr WireHeader kOurs;
  const auto number = [](auto value) { return std::to_string(static_cast<int>(value)); };
  if (header.magic != kOurs.magic) return "wrong magic";
  if (header.version != kOurs.version)
    return "version " + number(header.version) + " instead of " + number(kOurs.version) +
           "; build both sides from one release";
  if (header.kind < FrameKind::Collective || header.kind > FrameKind::Rendezvous)
    return "unknown kind " + number(header.kind);
  if (header.op > kLastOpKind) return "unknown operation " + number(header.op);
  if (header.dtype > kLastDType) return "unknown dtype " + number(header.dtype);
  if (header.reduce_op > kLastReduceOp) return "unknown operator " + number(header.reduce_op);
  if (header.acknowledge > 1 || (header.reduce_op != ReduceOp::User && header.user_op != 0))
    return "reserved bits are not zero";
  if (header.nbytes > kMaxFrameBytes) return "payload of " + std::to_string(header.nbytes) + " bytes is over the limit";
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
  const Fingerprint& call = header.fingerprint;
  return std::bit_cast<FrameBytes>(WireHeader{.kind = header.kind,
                                              .op = call.op,
                                              .dtype = call.dtype,
                                              .reduce_op = call.reduce_op,
                                              .acknowledge = header.acknowledge,
                                              .root = call.root,
                                              .user_op = call.user_op,
                                              .group = call.group,
                                              .seq = call.seq,
                                              .count = call.count,
                                              .nbytes = header.nbytes,
                                              .id = header.id,
                                              .bulk_tag = header.bulk_tag});
}

FrameHeader decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (const std::string fault = fault_in(wire); !fault.empty())
    throw Error(ErrorCode::Protocol, "received bytes that are no frame header (", fault,
                "): ", quote_bytes(bytes, bytes.size()));
  return {.kind = wire.kind,
          .fingerprint = {.group = wire.group,
                          .seq = wire.seq,
                          .count = wire.count,
                          .root = wire.root,
                          .op = wire.op,
                          .dtype = wire.dtype,
                          .reduce_op = wire.reduce_op,
                          .user_op = wire.user_op},
          .nbytes = wire.nbytes,
          .id = wire.id,
          .acknowledge = wire.acknowledge != 0,
          .bulk_tag = wire.bulk_tag};
}

}  // namespace tutti::comm
