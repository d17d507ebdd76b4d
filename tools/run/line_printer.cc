#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/tools/run/line_printer.h>
#include <tutti/tools/run/ranges.h>

#include <algorithm>
#include <ctime>
#include <iterator>
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

void LineFolder::add(int rank, Stream stream, std::string_view text, Clock::time_point now, const Emit& emit) {
  Lines::iterator& last = last_line_[static_cast<std::size_t>(rank)];
  const auto begin = last == waiting_.end() ? waiting_.begin() : std::next(last);
  const auto found =
      std::find_if(begin, waiting_.end(), [&](const Line& line) { return line.stream == stream && line.text == text; });
  if (found != waiting_.end()) {
    found->ranks.push_back(rank);
    last = found;
  } else {
    // What stands behind it must not wait longer for its sake.
    const auto due = begin == waiting_.end() ? now + kWindow : begin->due;
    last = waiting_.insert(begin, {{rank}, stream, std::string(text), due});
    bytes_ += text.size();
  }
  const auto complete = [&] { return !waiting_.empty() && waiting_.front().ranks.size() == last_line_.size(); };
  while (complete() || waiting_.size() > kMostLines || bytes_ > kMostBytes) emit_first(emit);
}

void LineFolder::release(Clock::time_point now, const Emit& emit) {
  while (!waiting_.empty() && waiting_.front().due <= now) emit_first(emit);
}

void LineFolder::flush(const Emit& emit) {
  while (!waiting_.empty()) emit_first(emit);
}

std::optional<LineFolder::Clock::time_point> LineFolder::next_due() const {
  return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().due);
}

void LineFolder::emit_first(const Emit& emit) {
  emit(waiting_.front());
  bytes_ -= waiting_.front().text.size();
  for (const int rank : waiting_.front().ranks) {
    Lines::iterator& last = last_line_[static_cast<std::size_t>(rank)];
    if (last == waiting_.begin()) last = waiting_.end();
  }
  waiting_.pop_front();
}

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
      console_(console),
      folder_(options.nproc),
      show_folded_([this](const LineFolder::Line& folded) { show(folded.ranks, folded.stream, folded.text); }) {}

std::string LinePrinter::label_of(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks = local_ranks;
  for (int& rank : ranks) rank += job_.first_rank;
  return expand_label(
      template_, {to_ranges(ranks), to_ranges(local_ranks), std::to_string(job_.node), host_, options_.local.role});
}

void LinePrinter::print(int local_rank, Stream stream, std::string_view line) {
  if (!options_.local.fold) return show({local_rank}, stream, line);
  folder_.add(local_rank, stream, line, Clock::now(), show_folded_);
}

void LinePrinter::print_live(int local_rank, Stream stream, std::string_view line) {
  if (options_.local.json) return;
  sink(stream).show_live(comm::printable_utf8(label_of({local_rank}) + std::string(line)));
}

void LinePrinter::flush() {
  folder_.flush(show_folded_);
  for (const Stream stream : {Stream::Out, Stream::Err}) sink(stream).push("");
}

void LinePrinter::show(const std::vector<int>& local_ranks, Stream stream, std::string_view line) {
  static constexpr const char* kColours[] = {"36", "33", "35", "32", "34", "31"};
  Sink& target = sink(stream);
  if (options_.local.json) return target.push(json_of(local_ranks, stream, line) + "\n");
  const std::string label = label_of(local_ranks);
  std::string text = label;
  if (target.colours() && !label.empty()) {
    const int first = job_.first_rank + *std::min_element(local_ranks.begin(), local_ranks.end());
    text = std::string("\033[") + kColours[first % 6] + "m" + label + "\033[0m";
  }
  text.append(line).push_back('\n');
  target.push(text);
}

std::string LinePrinter::json_of(const std::vector<int>& local_ranks, Stream stream, std::string_view line) const {
  nlohmann::ordered_json object{{"time", utc_now()}, {"host", host_}};
  if (local_ranks.size() == 1) {
    object["rank"] = job_.first_rank + local_ranks.front();
    object["local_rank"] = local_ranks.front();
  } else {
    std::vector<int> ranks = local_ranks;
    for (int& rank : ranks) rank += job_.first_rank;
    std::sort(ranks.begin(), ranks.end());
    object["ranks"] = ranks;
  }
  object["stream"] = stream == Stream::Out ? "stdout" : "stderr";
  object["text"] = std::string(line);
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tutti::tools
