// LinePrinter: how lines of ranks look on the console: with a label, as JSON, folded where ranks say the same.
//
// A JSON object has "time" (UTC), "host", "rank" and "local_rank" ("ranks" instead where several are folded), "stream"
// and "text"; bytes that are no UTF-8 become U+FFFD. Used from one poll loop. Borrows the console.
#pragma once

#include <tutti/tools/run/line_folder.h>
#include <tutti/tools/run/output.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::tools {

struct PrinterOptions {
  std::string label;  // a template; "": none
  bool json = false;
  bool fold = false;
  std::string host;
  std::string role;
  int node = 0;
  int first_rank = 0;  // of this host
  int local_size = 1;
};

class LinePrinter {
 public:
  using Clock = LineFolder::Clock;

  /// Throws std::invalid_argument if the label has no meaning.
  LinePrinter(const PrinterOptions& options, Console& console);

  /// Queues a line, given without its end.
  void print(int local_rank, Stream stream, std::string_view line);
  /// False if a rank of this host has told this cause of a failure before.
  bool is_news(std::string cause) { return told_.insert(std::move(cause)).second; }
  /// Bytes as they are.
  void pass(Stream stream, std::string_view bytes) { sink(stream).push(bytes); }

  /// Shows what has waited long enough for other ranks to say the same.
  void release(Clock::time_point now);
  void flush();
  std::optional<Clock::time_point> next_due() const;

  Sink& sink(Stream stream) { return stream == Stream::Out ? console_.out() : console_.err(); }

 private:
  std::string label_of(const std::vector<int>& local_ranks) const;
  std::string json_of(const std::vector<int>& local_ranks, Stream stream, std::string_view line) const;
  void show(const std::vector<int>& local_ranks, Stream stream, std::string_view line);

  const PrinterOptions options_;
  Console& console_;
  LineFolder folder_;
  std::vector<std::string> labels_;  // by local rank
  std::set<std::string> told_;       // causes
};

}  // namespace tutti::tools
