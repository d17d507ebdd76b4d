#include <openssl/hmac.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/text_stream.h>
#include <tutti/comm/bootstrap/announcement.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <sstream>

namespace tutti::comm {
namespace {

constexpr std::string_view kFirstField = "tutti-meeting=2;";
constexpr std::size_t kFields = 12;
constexpr std::size_t kMostAddresses = 8;

std::string mac_of(std::string_view text, std::string_view secret) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length) == nullptr)
    throw Error(ErrorCode::System, "OpenSSL could not compute HMAC-SHA256");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

/// Makes `value` one word: characters that would end it early become '?'.
std::string word(const std::string& value) {
  std::string text = printable(value, 120);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == ';'; }, '?');
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in{std::string(text)};
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

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
  for (int number = 4; number <= 22; ++number) fields >> field;
  std::uint64_t ticks = 0;
  return read_number(field, ticks) ? ticks : 0;
}

}  // namespace

Announcement own_announcement(const World& world, std::vector<std::string> addresses, std::uint16_t port) {
  addresses.resize(std::min(addresses.size(), kMostAddresses));
  return {.job = word(world.job_id),
          .world_size = world.world_size,
          .host = word(host_name()),
          .identity = word(host_identity()),
          .pid = ::getpid(),
          .started = start_of(::getpid()),
          .time = std::time(nullptr),
          .nonce = new_job_secret().substr(0, 16),
          .addresses = std::move(addresses),
          .port = port};
}

std::string encode_announcement(const Announcement& announcement, std::string_view job_secret) {
  TextStream text;
  text << kFirstField << announcement.job << ';' << announcement.world_size << ';' << announcement.host << ';'
       << announcement.identity << ';' << announcement.pid << ';' << announcement.started << ';' << announcement.time
       << ';' << announcement.nonce << ';' << announcement.port << ';';
  for (std::size_t i = 0; i < announcement.addresses.size(); ++i)
    text << (i == 0 ? "" : ",") << announcement.addresses[i];
  text << ';';
  const std::string body = text.str();
  return body + mac_of(body, job_secret) + ';';
}

Reading decode_announcement(std::string_view text, std::string_view job_secret, Announcement& result) {
  result = {};
  const std::size_t common = std::min(text.size(), kFirstField.size());
  if (text.substr(0, common) != kFirstField.substr(0, common)) return Reading::Foreign;
  const std::vector<std::string> fields = split(text, ';');
  if (!text.ends_with(';') || fields.size() < kFields) return Reading::HalfWritten;
  result.job = fields[1];
  result.host = fields[3];
  result.identity = fields[4];
  result.nonce = fields[8];
  result.addresses = split(fields[10], ',');
  if (fields.size() > kFields || !read_number(fields[2], result.world_size) || !read_number(fields[5], result.pid) ||
      !read_number(fields[6], result.started) || !read_number(fields[7], result.time) ||
      !read_number(fields[9], result.port) || result.addresses.empty() || result.addresses.size() > kMostAddresses)
    return Reading::Foreign;
  const std::string& mac = fields[11];
  return mac_of(text.substr(0, text.size() - mac.size() - 1), job_secret) == mac ? Reading::Whole
                                                                                 : Reading::OtherSecret;
}

std::string text_of(const Announcement& announcement) {
  const std::int64_t age = std::time(nullptr) - announcement.time;
  return "rank 0 of job '" + announcement.job + "' (pid " + std::to_string(announcement.pid) + " on host " +
         announcement.host + ", " + (age < 0 ? "by a clock that is ahead" : std::to_string(age) + " s ago") + ")";
}

bool is_running_here(const Announcement& announcement) {
  return announcement.identity == word(host_identity()) && start_of(announcement.pid) == announcement.started;
}

}  // namespace tutti::comm
