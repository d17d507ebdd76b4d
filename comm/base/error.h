// The only exception type that comm throws.
//
// Texts name what happened, the rank, host, key or flag concerned, the value found and what to do about it.
// Thread-safety: values, like std::runtime_error.
#pragma once

#include <tutti/comm/base/text.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti::comm {

/// Which side has to act; pick the most specific one. The values are those of tutti_result, less one (c/tutti.h).
enum class ErrorCode {
  InvalidArgument,  // the caller's: wrong argument or environment; nothing was sent
  Timeout,          // a deadline passed; the text names the missing ranks
  PeerLost,         // another process died, or its connection broke
  Protocol,         // bytes on the wire that no Tutti peer of this version sends
  Mismatch,         // two ranks called different collectives, sizes, types or roots
  Unauthorized,     // wrong job secret, job id or world size
  Aborted,          // the group had failed before; the text repeats the first cause
  System,           // the operating system refused; the text holds errno's words
  Operator,         // the caller's: a UserOp threw; the text repeats what it said
};
inline constexpr ErrorCode kLastErrorCode = ErrorCode::Operator;

std::string_view name(ErrorCode code);

class Error : public std::runtime_error {
 public:
  /// The text is that of joined().
  template <typename... Parts>
  explicit Error(ErrorCode code, const Parts&... parts) : std::runtime_error(joined(parts...)), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws Error{InvalidArgument} with the text of joined().
template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(ErrorCode::InvalidArgument, parts...);
}

/// "Connection refused (errno 111)".
std::string errno_text(int error_number);

/// Throws Error{System}: "<what>: <errno_text>".
[[noreturn]] void throw_errno(const std::string& what, int error_number);

}  // namespace tutti::comm
