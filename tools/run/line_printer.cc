#include <tutti/tools/run/label.h>
#include <tutti/tools/run/line_printer.h>
#include <tutti/tools/run/ranges.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

namespace tutti::tools {
namespace {

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

LinePrinter::LinePrinter(const PrinterOptions& options, Console& console)
    : options_(options), console_(console), folder_(options.local_size) {
  for (int rank = 0; rank < options.local_size; ++rank) labels_.push_back(label_of({rank}));
}

std::string LinePrinter::label_of(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks = local_ranks;
  for (int& rank : ranks) rank += options_.first_rank;
  return expand_label(options_.label, {to_ranges(ranks), to_ranges(local_ranks), std::to_string(options_.node),
                                       options_.host, options_.role});
}

void LinePrinter::print(int local_rank, Stream stream, std::string_view line) {
  if (!options_.fold) return show({local_rank}, stream, line);
  folder_.add(local_rank, stream, line, Clock::now(),
              [this](const LineFolder::Line& folded) { show(folded.ranks, folded.stream, folded.text); });
}

void LinePrinter::release(Clock::time_point now) {
  folder_.release(now, [this](const LineFolder::Line& folded) { show(folded.ranks, folded.stream, folded.text); });
}

void LinePrinter::flush() {
  folder_.flush([this](const LineFolder::Line& folded) { show(folded.ranks, folded.stream, folded.text); });
}

std::optional<LinePrinter::Clock::time_point> LinePrinter::next_due() const { return folder_.next_due(); }

void LinePrinter::show(const std::vector<int>& local_ranks, Stream stream, std::string_view line) {
  static constexpr const char* kColours[] = {"36", "33", "35", "32", "34", "31"};
  Sink& target = sink(stream);
  if (options_.json) return target.push(json_of(local_ranks, stream, line) + "\n");
  const std::string label =
      local_ranks.size() == 1 ? labels_[static_cast<std::size_t>(local_ranks.front())] : label_of(local_ranks);
  std::string text = label;
  if (target.colours() && !label.empty()) {
    const int first = options_.first_rank + *std::min_element(local_ranks.begin(), local_ranks.end());
    text = std::string("\033[") + kColours[first % 6] + "m" + label + "\033[0m";
  }
  text.append(line).push_back('\n');
  target.push(text);
}

std::string LinePrinter::json_of(const std::vector<int>& local_ranks, Stream stream, std::string_view line) const {
  nlohmann::ordered_json object{{"time", utc_now()}, {"host", options_.host}};
  if (local_ranks.size() == 1) {
    object["rank"] = options_.first_rank + local_ranks.front();
    object["local_rank"] = local_ranks.front();
  } else {
    std::vector<int> ranks = local_ranks;
    for (int& rank : ranks) rank += options_.first_rank;
    std::sort(ranks.begin(), ranks.end());
    object["ranks"] = ranks;
  }
  object["stream"] = stream == Stream::Out ? "stdout" : "stderr";
  object["text"] = std::string(line);
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tutti::tools
