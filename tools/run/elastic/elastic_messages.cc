#include <tutti/tools/run/elastic/elastic_messages.h>

#include <string>

namespace tutti::tools {
namespace {

constexpr char kRanks[] = "ranks";
constexpr char kRescue[] = "rescue";

}  // namespace

Words to_words(const RanksChanged& message, RankEnd::Clock::time_point now) {
  WordWriter writer(kRanks);
  writer.numbers(message.places);
  for (const std::string& word : to_words(message.as_they_are, now)) writer.text(word);
  return writer.words();
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
  WordWriter writer(kRescue);
  writer.number(message.round).numbers(message.lost).numbers(message.frozen);
  writer.number(static_cast<std::int64_t>(message.starts.size()));
  for (const RescuePlan::Start& start : message.starts) {
    writer.number(start.local_rank).number(start.restart_count).texts(start.environment);
  }
  return writer.words();
}

RescueOrder to_rescue_order(const Words& words) {
  WordReader reader(words, kRescue);
  RescueOrder message;
  message.round = reader.natural();
  message.lost = reader.numbers();
  message.frozen = reader.numbers();
  for (std::size_t left = reader.count(); left > 0; --left) {
    RescuePlan::Start start;
    start.local_rank = reader.natural();
    start.restart_count = reader.natural();
    start.environment = reader.texts();
    message.starts.push_back(std::move(start));
  }
  return message;
}

}  // namespace tutti::tools
