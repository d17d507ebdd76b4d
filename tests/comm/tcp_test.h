// What the tests of connections between ranks share: transports of one group, and the errors that they end with.
#pragma once

#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <cstdint>
#include <functional>
#include <string>

#include "store_test_support.h"

namespace tutti::comm::test {

inline constexpr char kTcpSecret[] = "the right secret";

inline TcpTransportOptions tcp_options(int rank, int world_size, bool encrypt = false) {
  return {.rank = rank,
          .world_size = world_size,
          .group = "a group",
          .job_id = "a job",
          .job_secret = kTcpSecret,
          .encrypt = encrypt};
}

inline std::uint16_t port_of(const TcpTransport& transport) {
  const std::string endpoint = transport.endpoint();
  return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

/// The error that `look`, done again and again, ends with.
inline Error error_of(const std::function<void()>& look) {
  try {
    for (const Deadline deadline = soon(); !deadline.expired();) look();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::Timeout, "no error came");
}

}  // namespace tutti::comm::test
