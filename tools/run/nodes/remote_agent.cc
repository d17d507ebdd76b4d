#include <poll.h>
#include <sys/eventfd.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/nodes/remote_agent.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

namespace tutti::tools {
namespace {

constexpr char kPlaceVariable[] = "TUTTI_REMOTE_AGENT";
constexpr std::size_t kMostSettings = 16 << 20;

std::string joined(const std::vector<std::string>& words) { return encode_words(words); }

std::size_t number_of(const std::string& text) { return std::strtoul(text.c_str(), nullptr, 10); }

// Byte by byte up to the colon, then all of it: nothing beyond the message is taken.
std::string read_netstring(int fd) {
  std::string digits;
  char byte = 0;
  const auto next = [&] {
    ssize_t got = 0;
    do {
      got = ::read(fd, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) throw comm::Error(comm::ErrorCode::Protocol, "standard input ended before the launcher's settings");
  };
  next();
  while (byte != ':') {
    if (byte < '0' || byte > '9' || digits.size() > 9)
      throw comm::Error(comm::ErrorCode::Protocol,
                        "standard input holds no launcher's settings (--agent is for the "
                        "launcher of -H and --hostfile)");
    digits += byte;
    next();
  }
  const std::size_t length = number_of(digits);
  if (length > kMostSettings) throw comm::Error(comm::ErrorCode::Protocol, "the launcher's settings are too long");
  std::string bytes;
  for (std::size_t i = 0; i <= length; ++i) {
    next();
    bytes += byte;
  }
  bytes.pop_back();  // the comma
  return bytes;
}

RemoteSettings decode_settings(const std::string& bytes) {
  const Words words = decode_words(bytes);
  if (words.size() != 10) throw comm::Error(comm::ErrorCode::Protocol, "the launcher is of another version");
  RemoteSettings settings;
  settings.secret = words[0];
  settings.folder = words[1];
  settings.environment = decode_words(words[2]);
  settings.command = decode_words(words[3]);
  settings.host = words[4];
  settings.node = static_cast<int>(number_of(words[5]));
  settings.nodes = static_cast<int>(number_of(words[6]));
  settings.nproc = static_cast<int>(number_of(words[7]));
  settings.port = static_cast<std::uint16_t>(number_of(words[8]));
  settings.addresses = decode_words(words[9]);
  return settings;
}

void set_variable(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals != std::string::npos && equals > 0)
    ::setenv(assignment.substr(0, equals).c_str(), assignment.c_str() + equals + 1, 1);
}

void execute(const RemoteSettings& settings) {
  if (::chdir(settings.folder.c_str()) != 0)
    std::cerr << "tutti run: host " << settings.host << " has no folder '" << settings.folder
              << "'; the ranks run in the home folder\n";
  for (const std::string& assignment : settings.environment) set_variable(assignment);
  ::setenv("TUTTI_JOB_SECRET", settings.secret.c_str(), 1);
  std::vector<std::string> addresses = settings.addresses;
  // "client port server port": how sshd sees the launcher's host, so there is a way back to it.
  if (const char* connection = std::getenv("SSH_CONNECTION")) {
    const std::string_view text(connection);
    addresses.insert(addresses.begin(), std::string(text.substr(0, text.find(' '))));
  }
  const Words place{std::to_string(settings.node),
                    std::to_string(settings.nodes),
                    std::to_string(settings.nproc),
                    std::to_string(settings.port),
                    settings.host,
                    joined(addresses)};
  ::setenv(kPlaceVariable, encode_words(place).c_str(), 1);
  std::vector<char*> command;
  for (const std::string& word : settings.command) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  ::execv("/proc/self/exe", command.data());
}

}  // namespace

std::string encode_settings(const RemoteSettings& settings) {
  const std::string bytes =
      encode_words({settings.secret, settings.folder, joined(settings.environment), joined(settings.command),
                    settings.host, std::to_string(settings.node), std::to_string(settings.nodes),
                    std::to_string(settings.nproc), std::to_string(settings.port), joined(settings.addresses)});
  return std::to_string(bytes.size()) + ":" + bytes + ",";
}

int become_agent() {
  try {
    const RemoteSettings settings = decode_settings(read_netstring(STDIN_FILENO));
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
  const Words words = decode_words(std::getenv(kPlaceVariable));
  ::unsetenv(kPlaceVariable);
  if (words.size() != 6) throw comm::Error(comm::ErrorCode::Protocol, "the launcher is of another version");
  options.node_rank = static_cast<int>(number_of(words[0]));
  options.min_nodes = options.max_nodes = static_cast<int>(number_of(words[1]));
  nproc = static_cast<int>(number_of(words[2]));
  options.port = static_cast<std::uint16_t>(number_of(words[3]));
  options.remote = true;
  options.node_name = words[4];
  options.addresses = decode_words(words[5]);
  options.host = options.addresses.empty() ? comm::loopback_address() : options.addresses.front();
}

InputWatch::InputWatch(std::function<void()> gone) : stop_fd_(::eventfd(0, EFD_CLOEXEC)) {
  if (stop_fd_ < 0) comm::throw_errno("cannot make an event descriptor", errno);
  thread_ = std::thread([this, gone = std::move(gone)] {
    char bytes[256];
    for (;;) {
      pollfd entries[2]{{STDIN_FILENO, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
      if (::poll(entries, 2, -1) < 0) continue;
      if (entries[1].revents != 0) return;
      if (::read(STDIN_FILENO, bytes, sizeof(bytes)) > 0) continue;
      return gone();
    }
  });
}

InputWatch::~InputWatch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_fd_, &one, sizeof(one));
  thread_.join();
  ::close(stop_fd_);
}

}  // namespace tutti::tools
