#include <tutti/tools/labs/show/parts.h>

#include <nlohmann/json.hpp>

namespace tutti::labs::show {
namespace {

using Json = nlohmann::json;

const char* letter(PlayEvent::Kind kind) {
  switch (kind) {
    case PlayEvent::Kind::Send:
      return "s";
    case PlayEvent::Kind::Recv:
      return "r";
    case PlayEvent::Kind::Combine:
      return "a";
    case PlayEvent::Kind::Copy:
      return "c";
    case PlayEvent::Kind::Wait:
      return "w";
  }
  return "";
}

Json json_of(const Side& side) {
  Json events = Json::array(), changes = Json::array(), buffers = Json::array(), finish = Json::array();
  for (const Shown& event : side.events) {
    if (event.kind == PlayEvent::Kind::Copy) continue;
    // kind, rank, peer, bytes, first and last stop, begin and end in seconds (null: never), call
    events.push_back({letter(event.kind), event.rank, event.peer, event.bytes, event.first, event.last, event.begin,
                      event.end == kNever ? Json() : Json(event.end), event.text});
  }
  for (const Change& change : side.changes) {
    changes.push_back({change.at, change.rank, change.buffer, change.offset, change.replaces ? 1 : 0, change.cells});
  }
  for (const ShownBuffer& buffer : side.buffers)
    buffers.push_back({{"name", buffer.name}, {"initial", buffer.initial}});
  for (const RankLine& line : side.ranks) finish.push_back(line.finish == kNever ? Json() : Json(line.finish));
  return {{"title", side.play->title}, {"ranks", side.ranks.size()}, {"root", side.play->root}, {"events", events},
          {"changes", changes},        {"buffers", buffers},         {"finish", finish}};
}

}  // namespace

std::string data_json(const std::vector<const Side*>& sides, const std::vector<Difference>& found, const Stops& stops,
                      const Cells& cells) {
  Json data;
  data["stops"] = stops.seconds();
  data["cells"] = Json::array();
  for (const Cell& cell : cells.all()) data["cells"].push_back({cell.value, cell.who, cell.times});
  data["sides"] = Json::array();
  for (const Side* side : sides) data["sides"].push_back(json_of(*side));
  data["wrong"] = Json::array();
  for (const Difference& one : found) data["wrong"].push_back({one.buffer, one.rank, one.index, one.expected});
  std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace tutti::labs::show
