// Where comm's few log lines go. comm logs nothing while all is well.
//
// Thread-safety: all functions may be called from any thread. The sink is the one process-wide setting of comm; it is
// replaced as a whole and must itself be thread-safe.
#pragma once

#include <tutti/comm/base/text.h>

#include <functional>
#include <string_view>

namespace tutti::comm {

enum class LogLevel { Error, Warn, Info, Debug };

using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// Replaces the sink; an empty function restores the default, which writes levels up to TUTTI_LOG (error, warn, info,
/// debug; default warn; another text is named, once, and counts as warn) to stderr as one line "[tutti +1.234s W] ...".
void set_log_sink(LogSink sink);

void log(LogLevel level, std::string_view line);
/// The line is that of joined().
template <typename... Parts>
requires(sizeof...(Parts) > 1) void log(LogLevel level, const Parts&... parts) {
  log(level, std::string_view(joined(parts...)));
}

/// The default sink, for a sink that adds to it.
void log_to_stderr(LogLevel level, std::string_view line);

}  // namespace tutti::comm
