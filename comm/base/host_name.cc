#include <tutti/comm/base/host_name.h>
#include <unistd.h>

namespace tutti::comm {

std::string host_name() {
  char name[256] = {};  // the last byte stays 0: a name cut short need not end with one
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown-host";
  return name;
}

}  // namespace tutti::comm
