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

/// In the environment for as long as this lives: programs that this process starts see nothing of it.
class SettingsForLoading {
 public:
  SettingsForLoading() {
    for (const auto& [name, value] : kSettings)
      if (std::getenv(name) == nullptr && ::setenv(name, value, 0) == 0) set_.push_back(name);
  }
  SettingsForLoading(const SettingsForLoading&) = delete;
  SettingsForLoading& operator=(const SettingsForLoading&) = delete;
  ~SettingsForLoading() {
    for (const char* name : set_) ::unsetenv(name);
  }

 private:
  std::vector<const char*> set_;
};

template <typename Function>
void look_up(void* handle, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
  if (function == nullptr && missing.empty()) missing = name;
}

UcxLibrary load() {
  UcxLibrary ucx{};
  const SettingsForLoading settings;
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    ucx.refusal = "UCX is not installed (" + std::string(why != nullptr ? why : kFile) +
                  "): install it (Debian: apt-get install libucx0) on all hosts, or use --transport auto";
    return ucx;
  }
  std::string missing;
#define TUTTI_UCX_LOOK_UP(name) look_up(handle, #name, ucx.name, missing);
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_LOOK_UP)
#undef TUTTI_UCX_LOOK_UP
  if (!missing.empty())
    ucx.refusal = std::string(kFile) + " has no " + missing + ": install UCX " + std::to_string(UCP_API_MAJOR) + "." +
                  std::to_string(UCP_API_MINOR) + " or newer";
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
