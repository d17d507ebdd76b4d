#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>

namespace tutti::comm {
namespace {

bool is_printable(unsigned char c) { return c >= 0x20 && c < 0x7f; }

}  // namespace

std::string quote_bytes(std::span<const std::byte> bytes, std::size_t limit) {
  if (bytes.empty()) return "no bytes";
  std::string digits, text;
  for (const std::byte b : bytes.first(std::min(limit, bytes.size()))) {
    const auto c = std::to_integer<unsigned char>(b);
    digits += (digits.empty() ? "" : " ") + hex_digits({&c, 1});
    text += is_printable(c) ? static_cast<char>(c) : '.';
  }
  return joined(digits, bytes.size() > limit ? " ..." : "", " (\"", text, "\")");
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string result(text.substr(0, limit));
  for (char& c : result) {
    if (!is_printable(static_cast<unsigned char>(c))) c = '?';
  }
  if (text.size() > limit) result += "...";
  return result;
}

std::string hex(unsigned long long value) { return format("0x%016llx", value); }

void StrangerLog::tell(const std::string& line, Clock::time_point now) {
  const bool first = period_began_ == Clock::time_point{};
  if (first || now - period_began_ >= kPeriod) {
    period_began_ = now;
    lines_ = 0;
    if (untold_ > 0)
      log(LogLevel::Warn, prefix_, std::exchange(untold_, 0), " more connections were shown out that no line tells of");
  }
  if (lines_ == kLinesPerPeriod) {
    ++untold_;
    return;
  }
  ++lines_;
  const bool last = lines_ == kLinesPerPeriod;
  log(LogLevel::Warn, prefix_, line, last ? "; the next ones are only counted for a while" : "");
}

void StrangerLog::tell_of_leaver(const std::string& line, std::span<const std::byte> sent) {
  if (sent.empty()) {
    log(LogLevel::Info, prefix_, line);
  } else {
    tell(line + "; it sent " + quote_bytes(sent));
  }
}

}  // namespace tutti::comm
