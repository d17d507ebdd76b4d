#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/job_secret.h>
#include <tutti/comm/bootstrap/printable.h>
#include <tutti/comm/bootstrap/world.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

constexpr int kMaxWorldSize = 1 << 20;
constexpr std::array kPlaceVariables = {"RANK",        "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR", "MASTER_PORT"};

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorCode::InvalidArgument, text); }

std::string shown(int value) { return std::to_string(value); }
std::string shown(const std::string& value) { return '"' + printable(value, 200) + '"'; }

/// Reads and checks; remembers what it found, for texts.
class Finder {
 public:
  Finder(const WorldOptions& options, const Environment& environment) : options_(options), environment_(environment) {
    for (const char* name : kPlaceVariables) {
      if (const auto value = environment_(name)) {
        found_ += (found_.empty() ? "" : ", ") + std::string(name) + "=" + shown(*value);
        names_ += (names_.empty() ? "" : ", ") + std::string(name);
      }
    }
  }

  std::optional<std::string> text(const std::string& name, const std::optional<std::string>& option = {}) const {
    auto value = environment_(name);
    if (value && value->empty())
      refuse(name + " is set but empty (found: " + found_ + "); unset it or give it a value");
    return merged(name, option, value);
  }

  std::optional<int> number(const std::string& name, int least, int most, const std::optional<int>& option = {}) const {
    std::optional<int> value;
    if (const auto written = environment_(name)) value = parse(name, *written, least, most);
    if (option && (*option < least || *option > most)) {
      refuse("the option for " + name + " is " + shown(*option) + "; it must lie in " + range(least, most));
    }
    return merged(name, option, value);
  }

  bool found_any() const { return !found_.empty(); }
  bool any_option() const {
    return options_.rank || options_.world_size || options_.master_addr || options_.master_port || options_.store;
  }

  /// Everything that was found, for the text of an error.
  std::string listing() const {
    std::string text = "found: " + (found_.empty() ? std::string("none of these variables") : found_);
    const auto add = [&](const char* name, const auto& option) {
      if (option) text += std::string(", option ") + name + "=" + shown(*option);
    };
    add("rank", options_.rank);
    add("world_size", options_.world_size);
    add("master_addr", options_.master_addr);
    add("master_port", options_.master_port);
    add("store", options_.store);
    if (const auto store = environment_("TUTTI_STORE")) text += ", TUTTI_STORE=" + shown(*store);
    if (environment_("TUTTI_JOB_SECRET")) text += ", TUTTI_JOB_SECRET=(set)";
    if (const auto id = environment_("TUTTI_JOB_ID")) text += ", TUTTI_JOB_ID=" + shown(*id);
    return text;
  }

  std::string source() const {
    if (!any_option()) return found_any() ? names_ + " in the environment" : "nothing: one rank";
    return found_any() ? "explicit options, and " + names_ + " in the environment" : "explicit options";
  }

 private:
  static std::string range(int least, int most) { return shown(least) + ".." + shown(most); }

  int parse(const std::string& name, const std::string& written, int least, int most) const {
    int value = 0;
    const auto [end, status] = std::from_chars(written.data(), written.data() + written.size(), value);
    if (status != std::errc() || end != written.data() + written.size()) {
      refuse(name + "=" + shown(written) + " is no whole number in " + range(least, most) + " (found: " + found_ + ")");
    }
    if (value < least || value > most) {
      refuse(name + "=" + written + " must lie in " + range(least, most) + " (found: " + found_ + ")");
    }
    return value;
  }

  template <typename T>
  std::optional<T> merged(const std::string& name, const std::optional<T>& option,
                          const std::optional<T>& value) const {
    if (option && value && *option != *value) {
      refuse("the option for " + name + " is " + shown(*option) + ", but the environment has " + name + "=" +
             shown(*value) + "; drop one of the two");
    }
    return option ? option : value;
  }

  const WorldOptions& options_;
  const Environment& environment_;
  std::string found_;
  std::string names_;
};

void demand(const Finder& finder, const std::vector<std::pair<const char*, bool>>& needed, const std::string& purpose) {
  std::string missing;
  for (const auto& [name, present] : needed) {
    if (!present) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty()) return;
  refuse(purpose + "; missing: " + missing + "; " + finder.listing() +
         ". Set what is missing, start the ranks by a launcher (tutti run), or unset the others to run one rank");
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

/// With all ranks on the master's own host, local and global places are the same.
void fill_local_place(World& world, const Finder& finder) {
  constexpr int kMost = kMaxWorldSize;
  const auto local_rank = finder.number("LOCAL_RANK", 0, kMost - 1);
  const auto local_world_size = finder.number("LOCAL_WORLD_SIZE", 1, kMost);
  const bool one_host = world.world_size == 1 || is_loopback(world.master_addr);
  world.local_rank = local_rank.value_or(one_host ? world.rank : 0);
  world.local_world_size = local_world_size.value_or(one_host ? world.world_size : world.local_rank + 1);
  if (world.local_rank >= world.local_world_size) {
    refuse("LOCAL_RANK " + shown(world.local_rank) + " does not exist among " + shown(world.local_world_size) +
           " local ranks (ranks count from 0); " + finder.listing());
  }
  if (world.local_world_size > world.world_size) {
    refuse("LOCAL_WORLD_SIZE " + shown(world.local_world_size) + " is more than WORLD_SIZE " + shown(world.world_size) +
           "; " + finder.listing());
  }
}

/// The path of TUTTI_STORE=file:///PATH, or "" without TUTTI_STORE.
std::string store_file_of(const Finder& finder, const WorldOptions& options) {
  constexpr std::string_view kScheme = "file://";
  const auto store = finder.text("TUTTI_STORE", options.store);
  if (!store) return {};
  const std::string path = store->starts_with(kScheme) ? store->substr(kScheme.size()) : std::string();
  if (path.size() < 2 || path[0] != '/')
    refuse("TUTTI_STORE=" + shown(*store) +
           " names no place for the ranks to meet: write file:///PATH, a file that all ranks can reach, or a folder "
           "(without TUTTI_STORE they meet at MASTER_ADDR)");
  return path;
}

void fill_place(World& world, const WorldOptions& options, const Finder& finder) {
  constexpr int kMost = kMaxWorldSize;
  const auto rank = finder.number("RANK", 0, kMost - 1, options.rank);
  const auto world_size = finder.number("WORLD_SIZE", 1, kMost, options.world_size);
  const auto master_addr = finder.text("MASTER_ADDR", options.master_addr);
  const auto master_port = finder.number("MASTER_PORT", 1, 65535, options.master_port);
  demand(finder, {{"RANK", rank.has_value()}, {"WORLD_SIZE", world_size.has_value()}},
         "this rank's place in its job is only half known");
  if (*rank >= *world_size) {
    refuse("RANK " + shown(*rank) + " does not exist in a world of WORLD_SIZE " + shown(*world_size) +
           " (ranks count from 0); " + finder.listing());
  }
  const std::string store_file = *world_size > 1 ? store_file_of(finder, options) : std::string();
  if (*world_size > 1 && store_file.empty()) {
    demand(finder, {{"MASTER_ADDR", master_addr.has_value()}, {"MASTER_PORT", master_port.has_value()}},
           "the address where " + shown(*world_size) + " ranks are to meet is only half known");
  }
  world.rank = *rank;
  world.world_size = *world_size;
  if (*world_size > 1 && store_file.empty()) {
    world.master_addr = *master_addr;
    world.master_port = static_cast<std::uint16_t>(*master_port);
  }
  world.store_file = store_file;
  fill_local_place(world, finder);
}

bool owned_by_launcher(const Finder& finder) {
  const auto owner = finder.text("TUTTI_STORE_OWNER");
  if (!owner || *owner == "rank0") return false;
  if (*owner == "launcher") return true;
  refuse("TUTTI_STORE_OWNER=" + shown(*owner) + " is neither \"launcher\" nor \"rank0\"");
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

World World::detect(const WorldOptions& options, const Environment& environment) {
  const Finder finder(options, environment);
  World world;
  world.detected_from = finder.source();
  if (finder.any_option() || finder.found_any()) fill_place(world, options, finder);
  world.job_id = finder.text("TUTTI_JOB_ID").value_or("default");
  world.launcher_owns_store = owned_by_launcher(finder);
  if (world.world_size > 1) {
    world.job_secret = tutti::comm::job_secret(environment);
  } else {
    world.job_secret = environment("TUTTI_JOB_SECRET").value_or("");
  }
  return world;
}

}  // namespace tutti::comm
