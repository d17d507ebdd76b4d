#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace tutti::tools {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RemoteSettings, secret, folder, environment, command, host, node, nodes, nproc, port,
                                   addresses)

namespace {

using Json = nlohmann::json;

constexpr char kPlaceVariable[] = "TUTTI_REMOTE_AGENT";

template <typename Parse>
RemoteSettings settings_in(const Parse& parse) {
  try {
    return parse().template get<RemoteSettings>();
  } catch (const Json::parse_error&) {
    throw comm::Error(comm::ErrorCode::Protocol,
                      "standard input holds no launcher's settings (--agent is for the launcher of -H and --hostfile)");
  } catch (const Json::exception&) {
    throw comm::Error(comm::ErrorCode::Protocol, "the launcher is of another version");
  }
}

void set_variable(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals != std::string::npos && equals > 0)
    ::setenv(assignment.substr(0, equals).c_str(), assignment.c_str() + equals + 1, 1);
}

void execute(RemoteSettings settings) {
  if (::chdir(settings.folder.c_str()) != 0)
    std::cerr << "tutti run: host " << settings.host << " has no folder '" << settings.folder
              << "'; the ranks run in the home folder\n";
  for (const std::string& assignment : settings.environment) set_variable(assignment);
  ::setenv("TUTTI_JOB_SECRET", settings.secret.c_str(), 1);
  // "client port server port": how sshd sees the launcher's host, so there is a way back to it.
  if (const char* connection = std::getenv("SSH_CONNECTION")) {
    const std::string_view text(connection);
    settings.addresses.insert(settings.addresses.begin(), std::string(text.substr(0, text.find(' '))));
  }
  const std::vector<std::string> words = std::move(settings.command);
  settings.secret = settings.folder = "";
  settings.environment = settings.command = {};
  ::setenv(kPlaceVariable, Json(settings).dump(-1, ' ', true, Json::error_handler_t::replace).c_str(), 1);
  std::vector<char*> command;
  for (const std::string& word : words) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  ::execv("/proc/self/exe", command.data());
}

}  // namespace

std::string encode_settings(const RemoteSettings& settings) {
  std::string bytes;
  Json::to_cbor(settings, bytes);
  return bytes;
}

int become_agent() {
  try {
    const RemoteSettings settings = settings_in([] { return Json::from_cbor(std::cin, false); });  // it stays open
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      const std::string line = std::string(kAgentMark) + "\n";
      if (::write(fd, line.data(), line.size()) < 0) return 1;
    }
    execute(settings);
    std::cerr << "tutti run: cannot execute tutti again: " << comm::errno_text(errno) << "\n";
  } catch (const comm::Error& error) {
    std::cerr << "tutti run: " << error.what() << "\n";
  }
  return 1;
}

bool is_remote_agent() { return std::getenv(kPlaceVariable) != nullptr; }

void take_remote_place(NodeOptions& options, int& nproc) {
  const RemoteSettings place = settings_in([] { return Json::parse(std::getenv(kPlaceVariable)); });
  ::unsetenv(kPlaceVariable);
  options.node_rank = place.node;
  options.min_nodes = options.max_nodes = place.nodes;
  nproc = place.nproc;
  options.port = place.port;
  options.remote = true;
  options.node_name = place.host;
  options.addresses = place.addresses;
  options.host = options.addresses.empty() ? comm::loopback_address() : options.addresses.front();
}

}  // namespace tutti::tools
