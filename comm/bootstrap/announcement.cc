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

constexpr std::string_view kFirstLine = "tutti-meeting=1";
constexpr std::string_view kLastKey = "mac=";
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
      text.begin(), text.end(), [](char c) { return c == ' ' || c == ';' || c == '='; }, '?');
  return text;
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

bool store_line(std::string_view key, std::string_view value, Announcement& result) {
  if (key == "job") return result.job = value, true;
  if (key == "host") return result.host = value, true;
  if (key == "identity") return result.identity = value, true;
  if (key == "nonce") return result.nonce = value, true;
  if (key == "address") return result.addresses.emplace_back(value), result.addresses.size() <= kMostAddresses;
  if (key == "world") return read_number(value, result.world_size);
  if (key == "pid") return read_number(value, result.pid);
  if (key == "started") return read_number(value, result.started);
  if (key == "time") return read_number(value, result.time);
  if (key == "port") return read_number(value, result.port);
  return true;  // of a later version
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

std::string encode_announcement(const Announcement& announcement, std::string_view job_secret, char separator) {
  TextStream text;
  const auto line = [&](std::string_view key, const auto& value) { text << key << "=" << value << separator; };
  text << kFirstLine << separator;
  line("job", announcement.job);
  line("world", announcement.world_size);
  line("host", announcement.host);
  line("identity", announcement.identity);
  line("pid", announcement.pid);
  line("started", announcement.started);
  line("time", announcement.time);
  line("nonce", announcement.nonce);
  for (const std::string& address : announcement.addresses) line("address", address);
  line("port", announcement.port);
  const std::string body = text.str();
  return body + std::string(kLastKey) + mac_of(body, job_secret) + separator;
}

Reading decode_announcement(std::string_view text, std::string_view job_secret, Announcement& result, char separator) {
  result = {};
  const std::size_t common = std::min(text.size(), kFirstLine.size());
  if (text.substr(0, common) != kFirstLine.substr(0, common)) return Reading::Foreign;
  if (text.empty() || text.back() != separator) return Reading::HalfWritten;
  std::size_t at = text.find(separator) + 1;
  std::string_view mac;
  std::size_t signed_bytes = 0;
  while (at < text.size()) {
    const std::string_view line = text.substr(at, text.find(separator, at) - at);
    if (line.starts_with(kLastKey)) {
      mac = line.substr(kLastKey.size());
      signed_bytes = at;
      break;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || !store_line(line.substr(0, equals), line.substr(equals + 1), result))
      return Reading::Foreign;
    at += line.size() + 1;
  }
  if (mac.empty() || result.addresses.empty()) return Reading::HalfWritten;
  return mac_of(text.substr(0, signed_bytes), job_secret) == mac ? Reading::Whole : Reading::OtherSecret;
}

std::string text_of(const Announcement& announcement) {
  const std::int64_t age = std::time(nullptr) - announcement.time;
  return "rank 0 of job '" + announcement.job + "' (pid " + std::to_string(announcement.pid) + " on host " +
         announcement.host + ", " + (age < 0 ? "by a clock that is ahead" : std::to_string(age) + " s ago") + ")";
}

bool is_running_here(const Announcement& announcement) {
  return announcement.identity == word(host_identity()) && start_of(announcement.pid) == announcement.started;
}

bool has_ended_here(const Announcement& announcement) {
  return announcement.identity == word(host_identity()) && start_of(announcement.pid) != announcement.started;
}

}  // namespace tutti::comm
