#include <tutti/comm/base/log.h>
#include <tutti/comm/store/stranger_log.h>
#include <tutti/comm/wire/printable.h>

#include <utility>

namespace tutti::comm {

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
