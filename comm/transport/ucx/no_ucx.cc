// In place of ucx_library.cc and ucx_engine.cc where Tutti is built without UCX's headers.
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>

namespace tutti::comm {

std::string ucx_refusal() {
  return "this build has no UCX: install its headers (Debian: apt-get install libucx-dev) and build again with "
         "-DTUTTI_UCX=ON, or use --transport auto";
}

std::string ucx_version() { return ""; }

std::shared_ptr<BulkEngine> open_ucx(const std::string&, std::vector<std::string>) { refuse(ucx_refusal()); }

}  // namespace tutti::comm
