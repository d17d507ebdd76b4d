// FrameHeader: what precedes every message between two ranks, and the fingerprint that makes mismatches errors.
//
// Encoding is fixed: kFrameHeaderBytes little-endian bytes, layout in wire_format.md. Pure functions; no I/O.
#pragma once

#include <tutti/comm/base/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti::comm {

enum class FrameKind : std::uint8_t {
  Collective = 1,     // one step of a collective; payload goes where the step says
  Eager = 2,          // a small point-to-point message, payload included
  RequestToSend = 3,  // announces a large one; no payload
  ClearToSend = 4,    // answer of the receiver that has a buffer for it; no payload
  Rendezvous = 5,     // the large message itself
};

/// Stands for the root in an all_reduce_rounded, which is an all_reduce otherwise.
inline constexpr std::int32_t kRounded = 1;

/// What both sides of a message must agree on. Two ranks are in the same operation if and only if these are equal.
struct Fingerprint {
  std::uint64_t group = 0;  // identity_hash(group name)
  std::uint64_t seq = 0;    // number of the collective within its group, from 1; 0 for point-to-point
  std::uint64_t count = 0;  // elements, as the caller gave them
  std::int32_t root = 0;    // root of the collective; tag of a point-to-point message; kRounded
  OpKind op = OpKind::Barrier;
  DType dtype = DType::UInt8;
  ReduceOp reduce_op = ReduceOp::Sum;
  std::uint32_t user_op = 0;  // ReduceOp::User: Reduction::hash()

  bool operator==(const Fingerprint&) const = default;

  /// "all_reduce seq 17 (sum float32 x 1048576)", "broadcast seq 3 (float32 x 10, root 2)", "send (float32 x 4, tag
  /// 7)".
  std::string to_string() const;
};

struct FrameHeader {
  FrameKind kind = FrameKind::Collective;
  Fingerprint fingerprint;
  std::uint64_t nbytes = 0;    // payload that follows
  std::uint64_t id = 0;        // collectives: index of this message between these two ranks in this operation;
                               // point-to-point: number of the message, unique per sender and receiver
  bool acknowledge = false;    // TCP: frames behind this one may be held back until it is (tcp/packet_sharing.h)
  std::uint64_t bulk_tag = 0;  // TCP: not 0: the payload comes through a BulkChannel, under this tag (tcp/bulk.h)
};

inline constexpr std::size_t kFrameHeaderBytes = 64;

inline constexpr std::uint64_t kMaxFrameBytes = std::uint64_t{1} << 40;

using FrameBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameBytes encode(const FrameHeader& header);

/// Throws Protocol, quoting the bytes, if these are not a header of this version with values in range.
FrameHeader decode_frame(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace tutti::comm
