#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/tools/run/line_printer.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::tools {
namespace {

const std::string& value_of(const std::string& name, const LabelFields& fields) {
  if (name == "rank") return fields.rank;
  if (name == "local_rank") return fields.local_rank;
  if (name == "node") return fields.node;
  if (name == "host") return fields.host;
  if (name == "role_name" || name == "role") return fields.role_name;
  throw std::invalid_argument("the label has ${" + name +
                              "}, but knows ${rank}, ${local_rank}, ${node}, ${host} and ${role_name} only");
}

std::string short_host_name() {
  const std::string whole = comm::host_name();
  return whole.substr(0, whole.find('.'));
}

std::string utc_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.", &parts);
  const std::string fraction = std::to_string(1000 + now.tv_nsec / 1'000'000).substr(1);
  return std::string(text, length) + fraction + "Z";
}

}  // namespace

std::string expand_label(const std::string& text, const LabelFields& fields) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const std::size_t end = next == '{' ? text.find('}', i) : std::string::npos;
    if (next == '$') {
      result += '$';
      ++i;
    } else if (end != std::string::npos) {
      result += value_of(text.substr(i + 2, end - i - 2), fields);
      i = end;
    } else {
      throw std::invalid_argument("the label '" + text + "' has a $ that begins neither ${name} nor $$");
    }
  }
  return result;
}

// Hosts are called as the table at the start of a job on several calls them.
LinePrinter::LinePrinter(const LaunchOptions& options, const JobEnvironment& job, Console& console)
    : options_(options),
      job_(job),
      template_(options.label
                    ? options.local.label.value_or(job.node_count > 1 ? kLabelOfSeveralHosts : kLabelOfOneHost)
                    : ""),
      host_(job.host.empty() ? short_host_name() : job.host),
      console_(console) {}

std::string LinePrinter::label_of(int local_rank) const {
  return expand_label(template_, {std::to_string(job_.first_rank + local_rank), std::to_string(local_rank),
                                  std::to_string(job_.node), host_, options_.local.role});
}

void LinePrinter::print_live(int local_rank, Stream stream, std::string_view line) {
  if (options_.local.json) return;
  sink(stream).show_live(comm::printable_utf8(label_of(local_rank) + std::string(line)));
}

void LinePrinter::flush() {
  for (const Stream stream : {Stream::Out, Stream::Err}) sink(stream).push("");
}

void LinePrinter::print(int local_rank, Stream stream, std::string_view line) {
  static constexpr const char* kColours[] = {"36", "33", "35", "32", "34", "31"};
  Sink& target = sink(stream);
  if (options_.local.json) return target.push(json_of(local_rank, stream, line) + "\n");
  const std::string label = label_of(local_rank);
  std::string text = label;
  if (target.colours() && !label.empty())
    text = std::string("\033[") + kColours[(job_.first_rank + local_rank) % 6] + "m" + label + "\033[0m";
  text.append(line).push_back('\n');
  target.push(text);
}

std::string LinePrinter::json_of(int local_rank, Stream stream, std::string_view line) const {
  const nlohmann::ordered_json object{{"time", utc_now()},
                                      {"host", host_},
                                      {"rank", job_.first_rank + local_rank},
                                      {"local_rank", local_rank},
                                      {"stream", stream == Stream::Out ? "stdout" : "stderr"},
                                      {"text", std::string(line)}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tutti::tools
