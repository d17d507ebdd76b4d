#include <fcntl.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

namespace tutti::comm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Announcement, job, world_size, host, identity, pid, started, time, nonce, addresses,
                                   port)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kName = "tutti-meeting=";
constexpr std::string_view kBegin = "tutti-meeting=3;";  // with the version
constexpr std::size_t kMacDigits = 64;
constexpr std::size_t kMostAddresses = 8;
constexpr std::size_t kLongestName = 120;
constexpr std::size_t kLongestFile = 16384;
constexpr char kSameSecret[] = "; all ranks need the same TUTTI_JOB_SECRET, or the same ~/.config/tutti/job_secret";

/// Field 22 of /proc/<pid>/stat; 0 if there is no such process (or it is a zombie).
std::uint64_t start_of(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // a name may contain anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return 0;
  for (int number = 4; number < 22; ++number) fields >> field;
  std::uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

[[noreturn]] void cannot_meet_in(const std::string& verb, const std::string& path, int error_number) {
  throw Error(ErrorCode::System, "cannot ", verb, " the file ", path,
              ", in which the ranks are to meet: ", errno_text(error_number),
              "; name another folder that all hosts see by TUTTI_MEET_DIR, or set MASTER_ADDR "
              "and MASTER_PORT");
}

/// The file's bytes, at most kLongestFile; nothing if it is not there.
std::optional<std::string> content_of(const std::string& path) {
  const Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ESTALE) return std::nullopt;
    cannot_meet_in("read", path, errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) cannot_meet_in("read", path, EINVAL);
  std::string content(kLongestFile, '\0');
  const ssize_t count = ::read(file.get(), content.data(), content.size());
  if (count < 0 && errno == ESTALE) return std::nullopt;
  if (count < 0) cannot_meet_in("read", path, errno);
  content.resize(static_cast<std::size_t>(count));
  return content;
}

}  // namespace

Announcement own_announcement(const World& world, std::vector<std::string> addresses, std::uint16_t port) {
  addresses.resize(std::min(addresses.size(), kMostAddresses));
  return {.job = printable(world.job_id, kLongestName),
          .world_size = world.world_size,
          .host = printable(host_name(), kLongestName),
          .identity = host_identity(),
          .pid = ::getpid(),
          .started = start_of(::getpid()),
          .time = std::time(nullptr),
          .nonce = new_job_secret().substr(0, 16),
          .addresses = std::move(addresses),
          .port = port};
}

std::string encode_announcement(const Announcement& announcement, std::string_view job_secret) {
  const std::string body = json(announcement).dump();
  return std::string(kBegin) + hex_digits(mac_of(body, job_secret)) + body;
}

Reading decode_announcement(std::string_view text, std::string_view job_secret, Announcement& result) {
  result = {};
  const std::size_t common = std::min(text.size(), kName.size());
  if (text.substr(0, common) != kName.substr(0, common)) return Reading::Foreign;
  if (!text.starts_with(kBegin)) return Reading::HalfWritten;  // or of another version: rank 0 will replace it, too
  const std::string_view body = text.substr(std::min(text.size(), kBegin.size() + kMacDigits));
  const json read = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (read.is_discarded()) return Reading::HalfWritten;
  try {
    read.get_to(result);
  } catch (const json::exception&) {
    return Reading::Foreign;
  }
  if (json(result) != read || result.addresses.empty() || result.addresses.size() > kMostAddresses)
    return Reading::Foreign;
  return text.substr(kBegin.size(), kMacDigits) == hex_digits(mac_of(body, job_secret)) ? Reading::Whole
                                                                                        : Reading::OtherSecret;
}

std::string text_of(const Announcement& announcement) {
  const std::int64_t age = std::time(nullptr) - announcement.time;
  return joined("rank 0 of job '", announcement.job, "' (pid ", announcement.pid, " on host ", announcement.host, ", ",
                age < 0 ? "by a clock that is ahead" : std::to_string(age) + " s ago", ")");
}

bool is_running_here(const Announcement& announcement) {
  return announcement.identity == host_identity() && start_of(announcement.pid) == announcement.started;
}

std::optional<MeetingFile::Found> MeetingFile::look() const {
  const std::string folder = fs::path(path_).parent_path().string();
  { const Socket fresh(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }
  const auto content = content_of(path_);
  if (!content) return std::nullopt;
  Found found;
  found.reading = decode_announcement(*content, secret_, found.announcement);
  if (found.reading == Reading::Foreign)
    throw Error(ErrorCode::Protocol, "the ranks are to meet in ", path_,
                ", but that file holds something else: ", quote_bytes(std::as_bytes(std::span(*content))),
                "; remove it, or name another folder by TUTTI_MEET_DIR");
  found.state = found.reading == Reading::HalfWritten ? "it is half written" : text_of(found.announcement);
  if (found.reading == Reading::OtherSecret)
    found.state = "it was written with another job secret, by " + found.state + kSameSecret;
  return found;
}

void MeetingFile::publish(const Announcement& announcement) const {
  std::error_code failed;
  fs::create_directories(fs::path(path_).parent_path(), failed);
  if (failed) cannot_meet_in("make the folder of", path_, failed.value());
  if (const auto found = look()) {
    const Announcement& old = found->announcement;
    if (found->reading == Reading::Whole && old.pid != announcement.pid && is_running_here(old))
      refuse("the ranks are to meet in ", path_, ", but there another job is meeting: ", text_of(old),
             " still runs; give each job a TUTTI_JOB_ID of its own");
    log(LogLevel::Info, path_, " was left by an earlier run and is replaced: ", found->state);
  }
  const int error = create_private_file(path_, encode_announcement(announcement, secret_), /*replace=*/true);
  if (error != 0) cannot_meet_in("write", path_, error);
}

void MeetingFile::withdraw(const std::string& nonce) const noexcept {
  try {
    const auto found = look();
    if (found && found->reading == Reading::Whole && found->announcement.nonce == nonce) ::unlink(path_.c_str());
  } catch (const std::exception&) {  // a file that stays is replaced by the next run
  }
}

}  // namespace tutti::comm
