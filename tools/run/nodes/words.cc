#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/tools/run/nodes/words.h>

namespace tutti::tools {
namespace {

constexpr std::size_t kMostWords = 1 << 20;  // a round of 100,000 ranks

}  // namespace

void make_no_sense(const std::string& what) {
  throw comm::Error(comm::ErrorCode::Protocol, "a message between agents makes no sense: " + what);
}

std::string encode_words(const Words& words) {
  std::string bytes;
  for (const std::string& word : words) bytes += std::to_string(word.size()) + ':' + word + ',';
  return bytes;
}

Words decode_words(const std::string& bytes) {
  Words words;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0;
    const char* const begin = bytes.data() + at;
    const auto [end, error] = std::from_chars(begin, bytes.data() + bytes.size(), length);
    const std::size_t start = at + static_cast<std::size_t>(end - begin) + 1;
    const bool fits = error == std::errc() && start <= bytes.size() && *end == ':' && length < bytes.size() - start &&
                      bytes[start + length] == ',';
    if (!fits)
      make_no_sense("byte " + std::to_string(at) + " begins no word: " + comm::printable(bytes.substr(at), 40));
    if (words.size() == kMostWords) make_no_sense("it has more than " + std::to_string(kMostWords) + " words");
    words.push_back(bytes.substr(start, length));
    at = start + length + 1;
  }
  return words;
}

const std::string& kind_of(const Words& words) {
  if (words.empty()) make_no_sense("it is empty");
  return words.front();
}

WordWriter& WordWriter::texts(const std::vector<std::string>& values) {
  number(static_cast<std::int64_t>(values.size()));
  words_.insert(words_.end(), values.begin(), values.end());
  return *this;
}

WordWriter& WordWriter::numbers(const std::vector<std::size_t>& values) {
  number(static_cast<std::int64_t>(values.size()));
  for (const std::size_t value : values) number(static_cast<std::int64_t>(value));
  return *this;
}

WordReader::WordReader(const Words& words, const std::string& kind) : words_(words) {
  if (kind_of(words) != kind) make_no_sense("it is '" + comm::printable(words[0], 40) + "' instead of '" + kind + "'");
}

const std::string& WordReader::text() {
  if (next_ >= words_.size()) make_no_sense("'" + words_[0] + "' ends after " + std::to_string(next_) + " words");
  return words_[next_++];
}

int WordReader::natural() {
  const int value = number<int>();
  if (value < 0) refuse_number(std::to_string(value));
  return value;
}

std::size_t WordReader::count() {
  const auto value = number<std::size_t>();
  if (value > words_.size() - next_)
    make_no_sense("'" + words_[0] + "' promises " + std::to_string(value) + " entries and ends");
  return value;
}

std::vector<std::string> WordReader::texts() {
  std::vector<std::string> result(count());
  for (std::string& entry : result) entry = text();
  return result;
}

std::vector<std::size_t> WordReader::numbers() {
  std::vector<std::size_t> result(count());
  for (std::size_t& entry : result) entry = number<std::size_t>();
  return result;
}

void WordReader::refuse_number(const std::string& word) const {
  make_no_sense("'" + comm::printable(word, 40) + "' in '" + words_[0] + "' is no number");
}

}  // namespace tutti::tools
