// PMI version 1, as far as it names a job: ranks under Hydra (MPICH, Intel MPI) have no variable that does.
//
// Lines of "cmd=... key=value ..." over the descriptor PMI_FD, each answered by one line. Source: MPICH's simple PMI
// client and Hydra's server (src/pmi, src/pm/hydra in https://github.com/pmodels/mpich); P. Balaji et al., "PMI: A
// Scalable Parallel Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010.
//
// "init" is left to an MPI library: a server serves without it, and refuses a second one. "finalize" cannot be: a
// process that has sent a request and ends without it counts as crashed, and mpiexec kills the others. It can be sent
// only once, so it is sent when the process exits.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace tutti::comm {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::chrono::milliseconds kFarewell{2000};
constexpr std::string_view kQuestion = "cmd=get_my_kvsname\n";
constexpr std::string_view kFinalize = "cmd=finalize\n";
constexpr char kRemedy[] = "; to do without it set TUTTI_JOB_ID and TUTTI_MEET_DIR";

std::string pmi_server(int descriptor) { return joined("the PMI server of mpiexec (PMI_FD=", descriptor, ")"); }

/// The value of `key` in "cmd=... key=value ...".
std::string field(const std::string& line, const std::string& key) {
  for (const std::string& word : split(line, ' '))
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  return {};
}

/// A whole line: it is shorter than what a socket or a pipe takes at once. False, with errno, if it cannot be written.
bool write_line(int descriptor, std::string_view line) {
  ssize_t count = ::send(descriptor, line.data(), line.size(), MSG_NOSIGNAL);
  if (count < 0 && errno == ENOTSOCK) count = ::write(descriptor, line.data(), line.size());
  return count == static_cast<ssize_t>(line.size());
}

[[noreturn]] void gone(int descriptor, const std::string& why) {
  throw Error(ErrorCode::System, pmi_server(descriptor), " does not answer: ", why, kRemedy);
}

/// One line, without its end.
std::string read_line(int descriptor, Deadline deadline) {
  std::string line;
  while (line.size() < kLongestLine) {
    if (!poll_until(descriptor, POLLIN, deadline))
      throw Error(ErrorCode::Timeout, pmi_server(descriptor), " has not told the job's name in time; it has said \"",
                  printable(line), '"');
    char next = 0;
    const ssize_t count = ::read(descriptor, &next, 1);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) gone(descriptor, count == 0 ? "it closed the connection" : errno_text(errno));
    if (next == '\n') break;
    line += next;
  }
  return line;
}

/// The connection to finalize, rather than what its descriptor stands for later.
struct PmiConnection {
  explicit PmiConnection(int number) : descriptor(number), user(::getpid()) { ::fstat(number, &status); }
  ~PmiConnection() {
    struct stat now {};
    if (::getpid() != user || ::fstat(descriptor, &now) != 0 || now.st_ino != status.st_ino ||
        now.st_dev != status.st_dev)
      return;
    if (!write_line(descriptor, kFinalize) || !poll_until(descriptor, POLLIN, Deadline::after(kFarewell))) return;
    std::array<char, 256> answer;
    [[maybe_unused]] const ssize_t count = ::read(descriptor, answer.data(), answer.size());
  }
  PmiConnection(const PmiConnection&) = delete;
  PmiConnection& operator=(const PmiConnection&) = delete;

  const int descriptor;
  const pid_t user;
  struct stat status {};
};

void finalize_at_exit(int descriptor) {
  const char* own = std::getenv("PMI_FD");
  if (own == nullptr || own != std::to_string(descriptor)) return;
  static const PmiConnection at_exit(descriptor);
}

}  // namespace

std::string pmi_job_name(int descriptor, Deadline deadline) {
  finalize_at_exit(descriptor);
  if (!write_line(descriptor, kQuestion)) gone(descriptor, errno_text(errno));
  const std::string answer = read_line(descriptor, deadline);
  const std::string name = field(answer, "kvsname");
  if (field(answer, "cmd") == "my_kvsname" && !name.empty()) return "pmi-" + name;
  throw Error(ErrorCode::Protocol, pmi_server(descriptor), " answered '", kQuestion.substr(0, kQuestion.size() - 1),
              "' by \"", printable(answer, 120), "\", which is not PMI version 1", kRemedy);
}

}  // namespace tutti::comm
