#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/printable.h>
#include <tutti/tools/run/elastic/elastic_messages.h>

#include <charconv>
#include <string>

namespace tutti::tools {
namespace {

constexpr char kRanks[] = "ranks";
constexpr char kRescue[] = "rescue";

[[noreturn]] void make_no_sense(const std::string& what) {
  throw comm::Error(comm::ErrorCode::Protocol, "a message of an elastic job's agents makes no sense: " + what);
}

void put(Words& words, const std::vector<std::size_t>& numbers) {
  words.push_back(std::to_string(numbers.size()));
  for (const std::size_t number : numbers) words.push_back(std::to_string(number));
}

// Takes the words of a message one after the other.
class WordReader {
 public:
  WordReader(const Words& words, const std::string& kind) : words_(words) {
    if (kind_of(words) != kind) make_no_sense("it is '" + comm::printable(words[0], 40) + "', not '" + kind + "'");
  }
  const std::string& text() {
    if (next_ >= words_.size()) make_no_sense("'" + words_[0] + "' ends after " + std::to_string(next_) + " words");
    return words_[next_++];
  }
  int number() {
    const std::string& word = text();
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 0) {
      make_no_sense("'" + comm::printable(word, 40) + "' in '" + words_[0] + "' is no number");
    }
    return value;
  }
  // Of things that take at least one word each.
  std::size_t count() {
    const auto value = static_cast<std::size_t>(number());
    if (value > words_.size() - next_) make_no_sense("'" + words_[0] + "' promises more than it holds");
    return value;
  }
  std::vector<std::size_t> numbers() {
    std::vector<std::size_t> result(count());
    for (std::size_t& entry : result) entry = static_cast<std::size_t>(number());
    return result;
  }
  Words rest() const { return {words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end()}; }

 private:
  const Words& words_;
  std::size_t next_ = 1;
};

}  // namespace

Words to_words(const RanksChanged& message, RankEnd::Clock::time_point now) {
  Words words{kRanks};
  put(words, message.places);
  const Words ended = to_words(message.as_they_are, now);
  words.insert(words.end(), ended.begin(), ended.end());
  return words;
}

RanksChanged to_ranks_changed(const Words& words, RankEnd::Clock::time_point now) {
  WordReader reader(words, kRanks);
  RanksChanged message{reader.numbers(), {}};
  message.as_they_are = to_ended(reader.rest(), now);
  if (message.as_they_are.ranks.size() != message.places.size()) {
    make_no_sense("it has " + std::to_string(message.places.size()) + " places for " +
                  std::to_string(message.as_they_are.ranks.size()) + " ranks");
  }
  return message;
}

Words to_words(const RescueOrder& message) {
  Words words{kRescue, std::to_string(message.round)};
  put(words, message.lost);
  put(words, message.frozen);
  words.push_back(std::to_string(message.starts.size()));
  for (const RescuePlan::Start& start : message.starts) {
    words.push_back(std::to_string(start.local_rank));
    words.push_back(std::to_string(start.restart_count));
    words.push_back(std::to_string(start.environment.size()));
    words.insert(words.end(), start.environment.begin(), start.environment.end());
  }
  return words;
}

RescueOrder to_rescue_order(const Words& words) {
  WordReader reader(words, kRescue);
  RescueOrder message;
  message.round = reader.number();
  message.lost = reader.numbers();
  message.frozen = reader.numbers();
  for (std::size_t left = reader.count(); left > 0; --left) {
    RescuePlan::Start start;
    start.local_rank = reader.number();
    start.restart_count = reader.number();
    for (std::size_t variables = reader.count(); variables > 0; --variables) {
      start.environment.push_back(reader.text());
    }
    message.starts.push_back(std::move(start));
  }
  return message;
}

}  // namespace tutti::tools
