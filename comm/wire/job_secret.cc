#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "TUTTI_JOB_SECRET";
constexpr std::size_t kShortest = 16;  // characters: 64 bits in hex

fs::path secret_file(const Environment& environment) {
  const auto home = environment("HOME");
  if (!home || home->empty()) {
    refuse(kVariable,
           " is not set, and neither is HOME, where the secret's file would be: "
           "set TUTTI_JOB_SECRET to the same text on all ranks");
  }
  return fs::path(*home) / ".config" / "tutti" / "job_secret";
}

[[noreturn]] void cannot(const std::string& verb, const fs::path& file, int error_number) {
  throw Error(ErrorCode::System, "cannot ", verb, " the job secret's file ", file.string(), ": ",
              errno_text(error_number), "; or set ", kVariable, " on all ranks");
}

void create(const fs::path& file) {
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  if (failed) cannot("make the folder of", file, failed.value());
  if (const int error = create_private_file(file.string(), new_job_secret() + "\n"); error != 0)
    cannot("create", file, error);
}

/// The owner of the file or of its folder can put another secret there. Root can do so anyway.
void check_owner(const fs::path& path, const struct stat& info) {
  if (info.st_uid == ::geteuid() || info.st_uid == 0) return;
  refuse("the job secret's place ", path.string(), " belongs to user ", info.st_uid, ", not to this one (", ::geteuid(),
         "), and may hold another's secret; is HOME right? Or set ", kVariable, " on all ranks");
}

void check_owner_and_mode(const fs::path& file, int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) cannot("look at", file, errno);
  if (!S_ISREG(info.st_mode)) {
    refuse("the job secret's file ", file.string(), " is no regular file; remove it");
  }
  check_owner(file, info);
  struct stat folder {};
  if (::stat(file.parent_path().c_str(), &folder) != 0) cannot("look at the folder of", file, errno);
  check_owner(file.parent_path(), folder);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return;
  refuse("the job secret's file ", file.string(), " can be read or written by others; mend it with: chmod 600 '",
         file.string(), "'");
}

std::string read_line(const fs::path& file, int fd) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) cannot("read", file, errno);
  std::string text(buffer.data(), static_cast<std::size_t>(count));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (text.empty()) {
    refuse("the job secret's file ", file.string(), " is empty; have it made anew with: rm '", file.string(), "'");
  }
  return text;
}

}  // namespace

std::string new_job_secret() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw Error(ErrorCode::System, "OpenSSL's random generator gave no bytes for a job secret");
  }
  return hex_digits(bytes);
}

std::string job_secret(const Environment& environment) {
  if (const auto given = environment(kVariable)) {
    if (!given->empty() && given->size() < kShortest)
      log(LogLevel::Warn, kVariable, " has ", given->size(),
          " characters, and can be guessed by trying; take at least ", kShortest,
          " random ones (openssl rand -hex 32)");
    if (!given->empty()) return *given;
    refuse(kVariable, " is set but empty; unset it or give it a value");
  }
  const fs::path file = secret_file(environment);
  Socket input(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (input.get() < 0 && errno == ENOENT) {
    create(file);
    input = Socket(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (input.get() < 0) cannot("open", file, errno);
  check_owner_and_mode(file, input.get());
  return read_line(file, input.get());
}

}  // namespace tutti::comm
