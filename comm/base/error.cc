#include <tutti/comm/base/error.h>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace tutti::comm {

std::string_view name(ErrorCode code) {
  static constexpr std::string_view kNames[] = {"invalid argument", "timeout",      "peer lost",
                                                "protocol error",   "mismatch",     "unauthorized",
                                                "aborted",          "system error", "operator failed"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(kLastErrorCode) + 1);
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "unknown error code";
}

std::string errno_text(int error_number) {
  const std::string cure = error_number == EMFILE ? "; raise RLIMIT_NOFILE (ulimit -Hn) of this process" : "";
  return std::system_category().message(error_number) + " (errno " + std::to_string(error_number) + ")" + cure;
}

void throw_errno(const std::string& what, int error_number) {
  throw Error(ErrorCode::System, what + ": " + errno_text(error_number));
}

}  // namespace tutti::comm
