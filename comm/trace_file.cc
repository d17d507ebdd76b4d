#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/comm/trace_file.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>

namespace tutti::comm {
namespace {

/// A JSON string. Names are ours or the caller's: bytes that JSON does not allow become escapes.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      result += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
    result += escape;
  }
  return result + '"';
}

std::string microseconds(std::chrono::nanoseconds time) {
  return format("%.3f", static_cast<double>(time.count()) / 1e3);
}

std::string metadata(const char* what, int rank, std::size_t tid, const std::string& name) {
  return R"({"ph":"M","name":")" + std::string(what) + R"(","pid":)" + std::to_string(rank) + R"(,"tid":)" +
         std::to_string(tid) + R"(,"args":{"name":)" + quoted(name) + "}}";
}

std::string_view name(TraceEvent::State state) {
  switch (state) {
    case TraceEvent::State::Running:
      return "running";
    case TraceEvent::State::Done:
      return "done";
    case TraceEvent::State::Failed:
      return "failed";
  }
  return "?";
}

std::size_t tid_of(std::uint32_t group, bool message) { return 2 * std::size_t{group} + (message ? 1 : 0); }

std::string as_json(const TraceLog::Entry& entry, const std::string& group, int rank, std::chrono::nanoseconds shift) {
  const TraceEvent& event = entry.event;
  const Fingerprint& f = event.operation;
  std::string text = R"({"ph":"X","name":)" + quoted(comm::name(f.op)) + R"(,"cat":)" +
                     (event.is_message() ? R"("message")" : R"("collective")") + R"(,"pid":)" + std::to_string(rank) +
                     R"(,"tid":)" + std::to_string(tid_of(entry.group, event.is_message())) + R"(,"ts":)" +
                     microseconds(event.start.time_since_epoch() + shift) + R"(,"dur":)" +
                     microseconds(event.end - event.start) + R"(,"args":{"operation":)" + quoted(f.to_string()) +
                     R"(,"group":)" + quoted(group) + R"(,"dtype":)" + quoted(comm::name(f.dtype)) + R"(,"bytes":)" +
                     std::to_string(event.bytes) + R"(,"state":)" + quoted(name(event.state));
  if (event.is_message()) {
    text += R"(,"count":)" + std::to_string(f.count) + R"(,"tag":)" + std::to_string(f.root);
  } else {
    text += R"(,"seq":)" + std::to_string(f.seq) + R"(,"root":)" + std::to_string(f.root) + R"(,"algorithm":)" +
            quoted(event.algorithm.text());
    if (!has_counts(f.op)) text += R"(,"count":)" + std::to_string(f.count);
  }
  return text + "}}";
}

template <typename Write>
void with_file(const std::string& path, const Write& write) {
  try {
    OutputFile file(path);
    write(file);
  } catch (const std::system_error& error) {
    throw_errno("cannot write the trace file '" + path + "'", error.code().value());
  }
}

}  // namespace

std::string trace_events(const TraceLog::Snapshot& log, int rank, const ClockOffset& offset,
                         TraceClock::time_point zero) {
  const auto& groups = log.groups;
  std::string text =
      metadata("process_name", rank, 0,
               "rank " + std::to_string(rank) + " (" + host_name() + ", pid " + std::to_string(::getpid()) + ")");
  text += ",\n" + (R"({"ph":"M","name":"clock","pid":)" + std::to_string(rank) + R"(,"tid":0,"args":{"offset_us":)" +
                   microseconds(offset.to_rank_0) + R"(,"uncertainty_us":)" + microseconds(offset.uncertainty) +
                   R"(,"operations_not_kept":)" + std::to_string(log.dropped) + "}}");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto index = static_cast<std::uint32_t>(group);
    text += ",\n" + metadata("thread_name", rank, tid_of(index, false), groups[group]);
    text += ",\n" + metadata("thread_name", rank, tid_of(index, true), groups[group] + ", messages");
  }
  const std::chrono::nanoseconds shift = offset.to_rank_0 - zero.time_since_epoch();
  for (const TraceLog::Entry& entry : log.entries) text += ",\n" + as_json(entry, groups[entry.group], rank, shift);
  return text;
}

void check_trace_file(const std::string& path) {
  with_file(path, [](OutputFile&) {});
}

void write_trace_file(const std::string& path, std::span<const std::string> parts) {
  with_file(path, [&](OutputFile& file) {
    file.write("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"ranks\":" + std::to_string(parts.size()) +
               "},\"traceEvents\":[\n");
    for (std::size_t i = 0; i < parts.size(); ++i) file.write(parts[i] + (i + 1 < parts.size() ? ",\n" : "\n"));
    file.write("]}\n");
    file.finish();
  });
}

}  // namespace tutti::comm
