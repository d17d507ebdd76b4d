#include <tutti/comm/base/error.h>

#include <cerrno>
#include <system_error>

namespace tutti::comm {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return "invalid argument";
    case ErrorCode::Timeout:
      return "timeout";
    case ErrorCode::PeerLost:
      return "peer lost";
    case ErrorCode::Protocol:
      return "protocol error";
    case ErrorCode::Mismatch:
      return "mismatch";
    case ErrorCode::Unauthorized:
      return "unauthorized";
    case ErrorCode::Aborted:
      return "aborted";
    case ErrorCode::System:
      return "system error";
    case ErrorCode::Operator:
      return "operator failed";
  }
  return "unknown error code";
}

std::string errno_text(int error_number) {
  const std::string cure = error_number == EMFILE ? "; raise RLIMIT_NOFILE (ulimit -Hn) of this process" : "";
  return std::system_category().message(error_number) + " (errno " + std::to_string(error_number) + ")" + cure;
}

void throw_errno(const std::string& what, int error_number) {
  throw Error(ErrorCode::System, what + ": " + errno_text(error_number));
}

}  // namespace tutti::comm
