#include <fcntl.h>
#include <tutti/comm/base/format.h>
#include <tutti/trainer/report/run_log.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

namespace tutti::trainer {

std::string now_as_text() {
  using Clock = std::chrono::system_clock;
  const auto now = Clock::now();
  const std::time_t seconds = Clock::to_time_t(now);
  const auto since_1970 = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts);
  return comm::format("%s.%03d", date, static_cast<int>(since_1970 % 1000));
}

RunLog::RunLog(std::filesystem::path run_dir, int rank) : run_dir_(std::move(run_dir)), rank_(rank) {}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::line(std::string_view text) {
  if (run_dir_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) {
    std::error_code ignored;
    std::filesystem::create_directories(run_dir_, ignored);
    descriptor_ = ::open((run_dir_ / "log.txt").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor_ < 0) return;
  }
  const std::string origin = now_as_text() + " rank " + std::to_string(rank_) + ": ";
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (end > 0) {
      const std::string whole = origin + std::string(text.substr(0, end)) + "\n";
      if (::write(descriptor_, whole.data(), whole.size()) < 0) return;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace tutti::trainer
