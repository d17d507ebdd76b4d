// LinePrinter: how lines of ranks look on the console: with a label, or as JSON.
//
// A JSON object has "time" (UTC), "host", "rank", "local_rank", "stream" and "text"; bytes that are no UTF-8 become
// U+FFFD. Used from one poll loop. Borrows the console.
#pragma once

#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/output.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::tools {

/// What stands before each line of a rank: a template with the names of torchrun's
/// TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE (Python's string.Template), and some more. The values of ${rank},
/// ${local_rank}, ${node}, ${host}, ${role_name}.
struct LabelFields {
  std::string rank;
  std::string local_rank;
  std::string node;
  std::string host;
  std::string role_name;
};

inline constexpr char kLabelOfOneHost[] = "[rank ${rank}] ";
inline constexpr char kLabelOfSeveralHosts[] = "[${host}/${rank}] ";

/// "${name}" becomes its value and "$$" a dollar. Throws std::invalid_argument naming what is unknown, and what is not.
std::string expand_label(const std::string& text, const LabelFields& fields);

class LinePrinter {
 public:
  /// Of the part of a job on this host. Borrows all three.
  LinePrinter(const LaunchOptions& options, const JobEnvironment& job, Console& console);

  /// Queues a line, given without its end.
  void print(int local_rank, Stream stream, std::string_view line);
  /// A line that the next one replaces, on a terminal; with its label, and control characters as '?'. Not as JSON.
  void print_live(int local_rank, Stream stream, std::string_view line);
  /// False if a rank of this host has told this cause of a failure before.
  bool is_news(std::string cause) { return told_.insert(std::move(cause)).second; }
  /// Bytes as they are.
  void pass(Stream stream, std::string_view bytes) { sink(stream).push(bytes); }

  void flush();  // erases the live line

  Sink& sink(Stream stream) { return stream == Stream::Out ? console_.out() : console_.err(); }

 private:
  std::string label_of(int local_rank) const;
  std::string json_of(int local_rank, Stream stream, std::string_view line) const;

  const LaunchOptions& options_;
  const JobEnvironment& job_;
  const std::string template_;  // of the label; "": none
  const std::string host_;
  Console& console_;
  std::set<std::string> told_;  // causes
};

}  // namespace tutti::tools
