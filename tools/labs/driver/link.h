// The driver's end of the socket to the referee. Blocking; whatever fails on it means that the referee is gone, and
// ends the process.
#pragma once

#include <tutti/tools/labs/driver/protocol.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tutti::labs::driver {

inline void write_all(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(protocol::kSocket, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(120);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

inline void read_all(void* data, std::size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(protocol::kSocket, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(got == 0 ? 0 : 120);  // 0: the referee has closed it, all is done
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

// A short payload goes with its header, so that the referee is woken once.
inline void post(protocol::Request request, const void* payload = nullptr) {
  char together[sizeof request + 2048];
  const bool is_short = request.payload_bytes <= sizeof together - sizeof request;
  const std::size_t taken = is_short ? request.payload_bytes : 0;
  std::memcpy(together, &request, sizeof request);
  if (taken > 0) std::memcpy(together + sizeof request, payload, taken);
  write_all(together, sizeof request + taken);
  if (!is_short) write_all(payload, request.payload_bytes);
}

inline protocol::Reply ask(const protocol::Request& request, const void* payload = nullptr) {
  post(request, payload);
  protocol::Reply reply;
  read_all(&reply, sizeof reply);
  return reply;
}

}  // namespace tutti::labs::driver
