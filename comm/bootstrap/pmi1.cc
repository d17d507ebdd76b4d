#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/pmi1.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace tutti::comm {
namespace {

constexpr std::size_t kLongestLine = 65536;
constexpr std::chrono::milliseconds kFarewell{2000};

std::string pmi_server(int descriptor) {
  return "the PMI server of mpiexec (PMI_FD=" + std::to_string(descriptor) + ")";
}

/// The value of `key` in "cmd=... key=value ...".
std::string field(const std::string& line, const std::string& key) {
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  return {};
}

/// False: the deadline has passed.
bool ready(int descriptor, short events, Deadline deadline) {
  constexpr std::int64_t kLongestPoll = 3'600'000;
  for (;;) {
    pollfd entry{descriptor, events, 0};
    const int count =
        ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(deadline.remaining().count(), kLongestPoll)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return true;  // reading gives the error
    if (deadline.expired()) return false;
  }
}

[[noreturn]] void gone(int descriptor, int error_number) {
  throw Error(ErrorCode::System,
              pmi_server(descriptor) + " does not answer: " +
                  (error_number == 0 ? std::string("it closed the connection") : errno_text(error_number)) +
                  "; to do without it set TUTTI_MEET_DIR to a folder that all hosts see");
}

/// The connection to finalize, rather than what its descriptor stands for later.
struct PmiConnection {
  explicit PmiConnection(int number) : descriptor(number), user(::getpid()) { ::fstat(number, &status); }
  ~PmiConnection() {
    struct stat now {};
    if (::getpid() != user || ::fstat(descriptor, &now) != 0 || now.st_ino != status.st_ino ||
        now.st_dev != status.st_dev)
      return;
    constexpr std::string_view kFinalize = "cmd=finalize\n";
    if (::send(descriptor, kFinalize.data(), kFinalize.size(), MSG_NOSIGNAL) < 0 &&
        (errno != ENOTSOCK || ::write(descriptor, kFinalize.data(), kFinalize.size()) < 0))
      return;
    if (!ready(descriptor, POLLIN, Deadline::after(kFarewell))) return;
    std::array<char, 256> answer;
    [[maybe_unused]] const ssize_t count = ::read(descriptor, answer.data(), answer.size());
  }
  PmiConnection(const PmiConnection&) = delete;
  PmiConnection& operator=(const PmiConnection&) = delete;

  const int descriptor;
  const pid_t user;
  struct stat status {};
};

}  // namespace

void finalize_pmi_at_exit(int descriptor) {
  const char* own = std::getenv("PMI_FD");
  if (own == nullptr || own != std::to_string(descriptor)) return;
  static const PmiConnection at_exit(descriptor);
}

Pmi1::Pmi1(int descriptor, Deadline deadline) : descriptor_(descriptor) {
  const std::string maxima = ask("get_maxes", "maxes", deadline);
  longest_key_ = std::strtoul(field(maxima, "keylen_max").c_str(), nullptr, 10);
  longest_value_ = std::strtoul(field(maxima, "vallen_max").c_str(), nullptr, 10);
  const std::string name = ask("get_my_kvsname", "my_kvsname", deadline);
  job_ = field(name, "kvsname");
  if (job_.empty()) misunderstood("get_my_kvsname", name);
}

void Pmi1::put(const std::string& key, const std::string& value, Deadline deadline) {
  if (key.size() >= longest_key_ || value.size() >= longest_value_)
    throw Error(ErrorCode::Protocol, pmi_server(descriptor_) + " takes keys of " + std::to_string(longest_key_) +
                                         " and values of " + std::to_string(longest_value_) + " bytes, too short for " +
                                         std::to_string(value.size()) +
                                         "; set TUTTI_MEET_DIR to a folder that all hosts see");
  const std::string answer = ask("put kvsname=" + job_ + " key=" + key + " value=" + value, "put_result", deadline);
  if (field(answer, "rc") != "0") misunderstood("put", answer);
}

std::optional<std::string> Pmi1::get(const std::string& key, Deadline deadline) {
  const std::string answer = ask("get kvsname=" + job_ + " key=" + key, "get_result", deadline);
  if (field(answer, "rc") != "0") return std::nullopt;
  return field(answer, "value");
}

void Pmi1::barrier(Deadline deadline) { ask("barrier_in", "barrier_out", deadline); }

std::string Pmi1::ask(const std::string& request, const std::string& expected, Deadline deadline) {
  const std::string line = "cmd=" + request + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    ssize_t count = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == ENOTSOCK) count = ::write(descriptor_, line.data() + sent, line.size() - sent);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if ((errno != EAGAIN && errno != EINTR) || !ready(descriptor_, POLLOUT, deadline)) {
      gone(descriptor_, errno);
    }
  }
  std::size_t end;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (!ready(descriptor_, POLLIN, deadline))
      throw Error(ErrorCode::Timeout,
                  pmi_server(descriptor_) + " has not answered '" + request.substr(0, request.find(' ')) + "' in time" +
                      (expected == "barrier_out" ? ": some rank has not come to meet the others" : ""));
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) gone(descriptor_, count == 0 ? 0 : errno);
    received_.append(buffer.data(), static_cast<std::size_t>(count));
    if (received_.size() > kLongestLine) misunderstood(request, received_);
  }
  const std::string answer = received_.substr(0, end);
  received_.erase(0, end + 1);
  if (field(answer, "cmd") != expected) misunderstood(request, answer);
  return answer;
}

void Pmi1::misunderstood(const std::string& request, const std::string& answer) const {
  throw Error(ErrorCode::Protocol,
              pmi_server(descriptor_) + " answered '" + request.substr(0, request.find(' ')) + "' by \"" +
                  printable(answer, 120) +
                  "\", which is not PMI version 1; set TUTTI_MEET_DIR to a folder that all hosts see");
}

}  // namespace tutti::comm
