// A TcpLink with the other end of its connection in the test's hands, and frames for it.
#pragma once

#include <tutti/comm/transport/tcp/tcp_link.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti::comm {

using Bytes = std::vector<std::byte>;

/// A link to rank 1, and the other end of its connection.
class LinkEnds {
 public:
  LinkEnds();
  ~LinkEnds();

  void send(std::span<const std::byte> bytes);
  /// Nothing more will come.
  void end();
  Bytes receive(std::size_t nbytes);
  /// What lies ready at the other end.
  Bytes take();
  int far_handle();

 private:
  struct Far;
  const std::unique_ptr<Far> far_;  // the link's socket needs its context
  RunsAhead runs_ahead_;

 public:
  TcpLink link;
};

inline FrameHeader header_of(FrameKind kind, std::size_t nbytes, std::uint64_t id = 0) {
  return {.kind = kind, .fingerprint = {.count = nbytes, .op = OpKind::Send}, .nbytes = nbytes, .id = id};
}

inline Bytes payload_of(std::size_t nbytes, std::uint64_t id = 0) {
  Bytes bytes(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(7 * i + id + 1);
  return bytes;
}

inline void append(Bytes& stream, FrameKind kind, std::size_t nbytes) {
  const FrameBytes header = encode(header_of(kind, nbytes));
  stream.insert(stream.end(), header.begin(), header.end());
  const Bytes payload = payload_of(nbytes);
  stream.insert(stream.end(), payload.begin(), payload.end());
}

}  // namespace tutti::comm
