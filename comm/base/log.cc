#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/base/printable_utf8.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace tutti::comm {
namespace {

LogLevel threshold_from_environment() {
  const char* value = std::getenv("TUTTI_LOG");
  const std::string_view text = value ? value : "warn";
  if (text == "error") return LogLevel::Error;
  if (text == "info") return LogLevel::Info;
  if (text == "debug") return LogLevel::Debug;
  if (text != "warn" && !text.empty()) {
    std::fprintf(stderr, "[tutti] TUTTI_LOG=%s is none of error, warn, info and debug; it counts as warn\n",
                 printable_utf8(text).c_str());
  }
  return LogLevel::Warn;
}

struct SinkHolder {
  std::mutex mutex;
  LogSink sink = log_to_stderr;
};

SinkHolder& holder() {
  static auto* const instance = new SinkHolder;  // never destroyed: groups that outlive main() log, too
  return *instance;
}

}  // namespace

void set_log_sink(LogSink sink) {
  std::lock_guard lock(holder().mutex);
  holder().sink = sink ? std::move(sink) : LogSink(log_to_stderr);
}

void log(LogLevel level, std::string_view line) {
  LogSink sink;
  {
    std::lock_guard lock(holder().mutex);
    sink = holder().sink;
  }
  sink(level, line);
}

void log_to_stderr(LogLevel level, std::string_view line) {
  static const auto start = std::chrono::steady_clock::now();
  static const LogLevel threshold = threshold_from_environment();
  if (level > threshold) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::fputs(
      format("[tutti +%.3fs %c] %s\n", seconds, "EWID"[static_cast<int>(level)], printable_utf8(line, "\n\t").c_str())
          .c_str(),
      stderr);
}

}  // namespace tutti::comm
