#include <fcntl.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFile = 16384;
constexpr char kSameSecret[] = "; all ranks need the same TUTTI_JOB_SECRET, or the same ~/.config/tutti/job_secret";

[[noreturn]] void cannot_meet_in(const std::string& verb, const std::string& path, int error_number) {
  throw Error(ErrorCode::System, "cannot " + verb + " the file " + path +
                                     ", in which the ranks are to meet: " + errno_text(error_number) +
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

void write_and_rename(const std::string& text, const std::string& path) {
  std::string draft = path + ".XXXXXX";
  const Socket file(::mkostemp(draft.data(), O_CLOEXEC));  // mode 0600
  if (file.get() < 0) cannot_meet_in("make", path, errno);
  const bool written = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(file.get()) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  if (written) return;
  const int error_number = errno;
  ::unlink(draft.c_str());
  cannot_meet_in("write", path, error_number);
}

}  // namespace

std::optional<MeetingFile::Found> MeetingFile::look() const {
  const std::string folder = fs::path(path_).parent_path().string();
  { const Socket fresh(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }
  const auto content = content_of(path_);
  if (!content) return std::nullopt;
  Found found;
  found.reading = decode_announcement(*content, secret_, found.announcement);
  switch (found.reading) {
    case Reading::Foreign:
      throw Error(ErrorCode::Protocol, "the ranks are to meet in " + path_ + ", but that file holds something else: " +
                                           quote_bytes(std::as_bytes(std::span(*content))) +
                                           "; remove it, or name another folder by TUTTI_MEET_DIR");
    case Reading::HalfWritten:
      found.state = "it is half written";
      break;
    case Reading::OtherSecret:
      found.state = "it was written with another job secret, by " + text_of(found.announcement) + kSameSecret;
      break;
    case Reading::Whole:
      found.state = text_of(found.announcement);
      break;
  }
  return found;
}

void MeetingFile::refuse_what_is_not_ours(const Announcement& announcement) const {
  const auto found = look();
  if (!found) return;
  const Announcement& old = found->announcement;
  if (found->reading == Reading::Whole && old.pid != announcement.pid && is_running_here(old))
    throw Error(ErrorCode::InvalidArgument, "the ranks are to meet in " + path_ +
                                                ", but there another job is meeting: " + text_of(old) +
                                                " still runs; give each job a TUTTI_JOB_ID of its own");
  log(LogLevel::Info, path_ + " was left by an earlier run and is replaced: " + found->state);
}

void MeetingFile::publish(const Announcement& announcement) const {
  std::error_code failed;
  fs::create_directories(fs::path(path_).parent_path(), failed);
  if (failed) cannot_meet_in("make the folder of", path_, failed.value());
  refuse_what_is_not_ours(announcement);
  write_and_rename(encode_announcement(announcement, secret_), path_);
}

void MeetingFile::withdraw(const std::string& nonce) const noexcept {
  try {
    const auto found = look();
    if (found && found->reading == Reading::Whole && found->announcement.nonce == nonce) ::unlink(path_.c_str());
  } catch (const std::exception&) {  // a file that stays is replaced by the next run
  }
}

}  // namespace tutti::comm
