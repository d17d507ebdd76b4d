// What the labs `latency` and `compare` share: one call of a submission's function with buffers of plain
// values, and what came of it.
#pragma once

#include <tutti/tools/labs/grade.h>

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

/// What stopped or marred a run, as a finding; empty if nothing did.
std::optional<Finding> incident_of(const RunResult& run, const std::string& where);

}  // namespace tutti::labs
