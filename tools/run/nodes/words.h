// A message between agents as a list of strings, and as bytes: netstrings (length, colon, bytes, comma; D. J.
// Bernstein, https://cr.yp.to/proto/netstrings.txt). The first word is the message's kind. Values and pure functions;
// all that reads throws comm::Error{Protocol} for what makes no sense.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

using Words = std::vector<std::string>;

std::string encode_words(const Words& words);
Words decode_words(const std::string& bytes);

/// The first word of a message: "hello", "started", ...
const std::string& kind_of(const Words& words);

/// Throws comm::Error{Protocol}: "a message between agents makes no sense: <what>".
[[noreturn]] void make_no_sense(const std::string& what);

/// Appends values to a message.
class WordWriter {
 public:
  explicit WordWriter(std::string kind) { words_.push_back(std::move(kind)); }

  WordWriter& text(const std::string& value) {
    words_.push_back(value);
    return *this;
  }
  WordWriter& number(std::int64_t value) { return text(std::to_string(value)); }
  WordWriter& texts(const std::vector<std::string>& values);
  WordWriter& numbers(const std::vector<std::size_t>& values);
  Words words() { return std::move(words_); }

 private:
  Words words_;
};

/// Takes them out again, in the same order. The words are borrowed.
class WordReader {
 public:
  WordReader(const Words& words, const std::string& kind);

  const std::string& text();
  template <typename T>
  T number() {
    const std::string& word = text();
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) refuse_number(word);
    return value;
  }
  /// Not negative.
  int natural();
  bool flag() { return number<int>() != 0; }
  /// Of things that take at least one word each.
  std::size_t count();
  std::vector<std::string> texts();
  std::vector<std::size_t> numbers();
  /// What has not been read.
  Words rest() const { return {words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end()}; }

 private:
  [[noreturn]] void refuse_number(const std::string& word) const;

  const Words& words_;
  std::size_t next_ = 1;
};

}  // namespace tutti::tools
