#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/comm/trace.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <system_error>

namespace tutti::comm {
namespace {

using nlohmann::json;

double microseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

json metadata(const char* what, int rank, std::size_t tid, json args) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", tid}, {"args", std::move(args)}};
}

constexpr const char* kStates[] = {"running", "done", "failed"};  // by TraceEvent::State

std::size_t tid_of(std::size_t group, bool message) { return 2 * group + (message ? 1 : 0); }

json as_json(const TraceLog::Entry& entry, const std::string& group, int rank, std::chrono::nanoseconds shift) {
  const TraceEvent& event = entry.event;
  const Fingerprint& f = event.operation;
  json args{{"operation", f.to_string()},
            {"group", group},
            {"dtype", name(f.dtype)},
            {"bytes", event.bytes},
            {"state", kStates[static_cast<int>(event.state)]}};
  if (!has_counts(f.op)) args["count"] = f.count;
  args[event.is_message() ? "tag" : "root"] = f.root;
  if (!event.is_message()) {
    args["seq"] = f.seq;
    args["algorithm"] = event.algorithm;
  }
  return {{"ph", "X"},
          {"name", name(f.op)},
          {"cat", event.is_message() ? "message" : "collective"},
          {"pid", rank},
          {"tid", tid_of(entry.group, event.is_message())},
          {"ts", microseconds(event.start.time_since_epoch() + shift)},
          {"dur", microseconds(event.end - event.start)},
          {"args", std::move(args)}};
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
  std::string text;
  const auto add = [&](const json& event) {  // names of groups are the caller's: bytes that are no UTF-8 are replaced
    text += (text.empty() ? "" : ",\n") + event.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  const std::string process =
      "rank " + std::to_string(rank) + " (" + host_name() + ", pid " + std::to_string(::getpid()) + ")";
  add(metadata("process_name", rank, 0, {{"name", process}}));
  add(metadata("clock", rank, 0,
               {{"offset_us", microseconds(offset.to_rank_0)},
                {"uncertainty_us", microseconds(offset.uncertainty)},
                {"operations_not_kept", log.dropped}}));
  for (std::size_t group = 0; group < log.groups.size(); ++group) {
    add(metadata("thread_name", rank, tid_of(group, false), {{"name", log.groups[group]}}));
    add(metadata("thread_name", rank, tid_of(group, true), {{"name", log.groups[group] + ", messages"}}));
  }
  const std::chrono::nanoseconds shift = offset.to_rank_0 - zero.time_since_epoch();
  for (const TraceLog::Entry& entry : log.entries) add(as_json(entry, log.groups[entry.group], rank, shift));
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
