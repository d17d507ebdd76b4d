// What the labs `latency`, `compare` and `download` share: one call of a submission's function with buffers of plain
// values, and stages made of what came of it.
#pragma once

#include <tutti/tools/labs/grade.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::labs {

template <typename T>
BufferContent buffer_of(const std::string& name, const std::vector<T>& values, bool is_const = false) {
  BufferContent content;
  content.name = name;
  content.is_const = is_const;
  content.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(content.bytes.data(), values.data(), content.bytes.size());
  return content;
}

template <typename T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// A call of `function`; all ranks are given copies of `buffers`.
Question question_of(const std::string& function, const Case& posed, const std::vector<BufferContent>& buffers);

/// Full points without a finding, else none.
StageResult stage_of(std::string name, std::string title, int points, std::optional<Finding> finding);

Finding finding_of(std::string diagnosis, std::string text, std::string hint);

/// What stopped or marred a run, as a finding; empty if nothing did.
std::optional<Finding> incident_of(const RunResult& run, const std::string& where);

/// Writes the time since its construction into the report at its end.
class Stopwatch {
 public:
  explicit Stopwatch(Report& report) : report_(report) {}
  ~Stopwatch() { report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Report& report_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// A compiled submission, or why there is none.
struct Opened {
  Workplace workplace;
  std::unique_ptr<Submission> submission{};
  std::optional<Finding> failure{};
  std::string messages{};  // the compiler's, where it failed
};
std::unique_ptr<Opened> opened(const std::filesystem::path& source, const std::vector<std::string>& functions);

/// Throws std::runtime_error with what to do if it is not there.
std::filesystem::path source_in(const std::filesystem::path& folder, const std::string& lab);

}  // namespace tutti::labs
