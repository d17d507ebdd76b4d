// SendBuffer: bytes on their way out of a socket that does not block. Internal to comm/store.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::comm {

class SendBuffer {
 public:
  void append(std::string bytes);

  std::size_t unsent() const { return bytes_.size() - sent_; }

  /// Sends what the socket takes now, all in one call where it can. Returns 0 when nothing is left, EAGAIN when the
  /// socket takes no more, else the error number of a connection that is broken.
  int flush(int socket);

 private:
  std::string bytes_;  // the first sent_ have left
  std::size_t sent_ = 0;
};

}  // namespace tutti::comm
