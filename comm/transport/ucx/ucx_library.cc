#include <dlfcn.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/comm/transport/ucx/ucx_library.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

constexpr char kFile[] = "libucp.so.0";

/// What UCX reads while it is loaded, for the whole process: no handlers of SIGSEGV and the like, no hooks in malloc
/// and mmap, which it would need only for memory that is not its own; and no lines on standard output: what fails is
/// told by what it fails. The user's own values stand.
constexpr std::pair<const char*, const char*> kSettings[] = {
    {"UCX_HANDLE_ERRORS", "none"}, {"UCX_ERROR_SIGNALS", ""},          {"UCX_DEBUG_SIGNO", "0"},
    {"UCX_MEM_EVENTS", "n"},       {"UCX_MEM_MMAP_HOOK_MODE", "none"}, {"UCX_MEM_MALLOC_HOOKS", "n"},
    {"UCX_LOG_LEVEL", "fatal"},    {"UCX_WARN_UNUSED_ENV_VARS", "n"}};

template <typename Function>
void look_up(void* handle, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
  if (function == nullptr && missing.empty()) missing = name;
}

UcxLibrary load() {
  UcxLibrary ucx{};
  std::vector<const char*> added;  // for as long as it takes: programs that this process starts see nothing of it
  for (const auto& [name, value] : kSettings)
    if (std::getenv(name) == nullptr && ::setenv(name, value, 0) == 0) added.push_back(name);
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  for (const char* name : added) ::unsetenv(name);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    ucx.refusal = joined("UCX is not installed (", why != nullptr ? why : kFile,
                         "): install it (Debian: apt-get install libucx0) on all hosts, or use --transport auto");
    return ucx;
  }
  std::string missing;
#define TUTTI_UCX_LOOK_UP(name) look_up(handle, #name, ucx.name, missing);
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_LOOK_UP)
#undef TUTTI_UCX_LOOK_UP
  if (!missing.empty())
    ucx.refusal = joined(kFile, " has no ", missing, ": install UCX ", UCP_API_MAJOR, ".", UCP_API_MINOR, " or newer");
  return ucx;
}

}  // namespace

const UcxLibrary& ucx_library() {
  static const UcxLibrary& ucx = *new UcxLibrary(load());  // never destroyed: groups may outlive main()
  return ucx;
}

std::string ucx_refusal() { return ucx_library().refusal; }

std::string ucx_version() {
  return ucx_refusal().empty() ? std::string("UCX ") + ucx_library().ucp_get_version_string() : "";
}

}  // namespace tutti::comm
