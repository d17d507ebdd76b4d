#include <tutti/comm/base/log.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tutti::comm {
namespace {

bool is_printable(unsigned char c) { return c >= 0x20 && c < 0x7f; }

}  // namespace

std::string quote_bytes(std::span<const std::byte> bytes, std::size_t limit) {
  if (bytes.empty()) return "no bytes";
  std::string digits;
  std::string text;
  for (const std::byte b : bytes.first(std::min(limit, bytes.size()))) {
    char pair[4];
    std::snprintf(pair, sizeof pair, "%02x", std::to_integer<unsigned>(b));
    if (!digits.empty()) digits += ' ';
    digits += pair;
    const auto c = std::to_integer<unsigned char>(b);
    text += is_printable(c) ? static_cast<char>(c) : '.';
  }
  if (bytes.size() > limit) digits += " ...";
  return digits + " (\"" + text + "\")";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string result(text.substr(0, limit));
  for (char& c : result) {
    if (!is_printable(static_cast<unsigned char>(c))) c = '?';
  }
  if (text.size() > limit) result += "...";
  return result;
}

std::string hex(unsigned long long value) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%016llx", value);
  return digits;
}

void StrangerLog::tell(const std::string& line, Clock::time_point now) {
  const bool first = period_began_ == Clock::time_point{};
  if (first || now - period_began_ >= kPeriod) {
    period_began_ = now;
    lines_ = 0;
    if (untold_ > 0)
      log(LogLevel::Warn, prefix_ + std::to_string(std::exchange(untold_, 0)) +
                              " more connections were shown out that no line tells of");
  }
  if (lines_ == kLinesPerPeriod) {
    ++untold_;
    return;
  }
  ++lines_;
  const bool last = lines_ == kLinesPerPeriod;
  log(LogLevel::Warn, line + (last ? "; the next ones are only counted for a while" : ""));
}

void StrangerLog::tell_of_leaver(const std::string& line, std::span<const std::byte> sent, Clock::time_point now) {
  if (sent.empty()) {
    log(LogLevel::Info, prefix_ + line);
  } else {
    tell(prefix_ + line + "; it sent " + quote_bytes(sent), now);
  }
}

}  // namespace tutti::comm
