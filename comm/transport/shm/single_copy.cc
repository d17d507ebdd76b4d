#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/single_copy.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace tutti::comm {

SingleCopy single_copy_setting() {
  const char* const value = std::getenv("TUTTI_SINGLE_COPY");
  const std::string_view text = value ? value : "auto";
  if (text == "auto") return SingleCopy::Auto;
  if (text == "never") return SingleCopy::Never;
  if (text == "always") return SingleCopy::Always;
  throw Error(ErrorCode::InvalidArgument,
              "TUTTI_SINGLE_COPY is '" + std::string(text) + "': auto, never or always is expected");
}

}  // namespace tutti::comm
