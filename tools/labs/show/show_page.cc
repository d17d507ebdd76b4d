#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/show/show_page.h>
#include <tutti/tools/labs/show/side.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/report/page/html.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::labs {
namespace {

using namespace show;
using Json = nlohmann::json;
using trainer::page::escaped;

constexpr std::size_t kMostWaits = 64;          // of a deadlock
constexpr std::size_t kLongestCall = 300;       // characters of one of its calls
constexpr std::size_t kLongestSentence = 2000;  // ... of an explanation

std::string page_file(std::string_view name) {
  const auto files = page_files();
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const EmbeddedFile& one) { return one.path == name; });
  return std::string(found->text);
}

/// JSON has no infinity: null.
Json time_json(double seconds) { return seconds == kNever ? Json() : Json(seconds); }

// Names in the order of the enumerations.
const char* name_of(PlayEvent::Kind kind) {
  constexpr const char* kNames[] = {"s", "r", "a", "c", "w"};
  return kNames[static_cast<std::size_t>(kind)];
}
const char* name_of(Play::Outcome outcome) {
  constexpr const char* kNames[] = {"right", "wrong", "deadlock", "failed"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Json events_json(const Side& side) {
  Json events = Json::array();
  for (const Shown& event : side.events) {
    if (event.kind == PlayEvent::Kind::Copy) continue;
    // panels.js names the places.
    events.push_back({name_of(event.kind), event.rank, event.peer, event.bytes, event.first, event.last, event.begin,
                      time_json(event.end), event.text, event.tag, event.carries});
  }
  return events;
}

Json side_json(const Side& side, bool is_library) {
  const Play& play = *side.play;
  Json changes = Json::array(), buffers = Json::array(), ranks = Json::array(), deadlock = Json::array();
  for (const Change& change : side.changes) {
    changes.push_back({change.at, change.rank, change.buffer, change.offset, change.replaces ? 1 : 0, change.cells});
  }
  for (const ShownBuffer& buffer : side.buffers)
    buffers.push_back({{"name", buffer.name}, {"initial", buffer.initial}});
  for (const RankLine& line : side.ranks) {
    ranks.push_back({{"sent", line.sent},
                     {"received", line.received},
                     {"bytes", line.bytes_sent},
                     {"waiting", line.waiting},
                     {"finish", time_json(line.finish)}});
  }
  for (const PlayWait& wait : play.deadlock) {
    if (deadlock.size() == kMostWaits) break;
    deadlock.push_back({{"rank", wait.rank}, {"peer", wait.peer}, {"text", wait.text.substr(0, kLongestCall)}});
  }
  return {{"title", play.title},
          {"is_library", is_library},
          {"root", play.root},
          {"outcome", name_of(play.outcome)},
          {"explanation", play.explanation.substr(0, kLongestSentence)},
          {"deadlock", deadlock},
          {"bound", play.bound_seconds},
          {"end", side.end},
          {"remarks", side.remarks},
          {"ranks", ranks},
          {"buffers", buffers},
          {"events", events_json(side)},
          {"changes", changes}};
}

/// Where the student's result differs from the library's, if both came to an end.
std::vector<Difference> differences_of(const std::vector<Side>& sides) {
  if (sides.size() != 2) return {};
  const Play::Outcome outcome = sides[0].play->outcome;
  const bool is_comparable = outcome == Play::Outcome::Right || outcome == Play::Outcome::Wrong;
  return is_comparable ? differences(sides[0], sides[1]) : std::vector<Difference>{};
}

/// What the scripts draw and play, as JSON that may stand within <script>: no "<" in it.
std::string data_json(const ShowPage& page) {
  const Play* student = page.student ? &*page.student : nullptr;
  const Play* library = page.library ? &*page.library : nullptr;
  const Stops stops({student, library});
  Cells cells(student != nullptr ? student->world_size : library != nullptr ? library->world_size : 1);
  std::vector<Side> sides;
  for (const Play* play : {student, library}) {
    if (play != nullptr) sides.push_back(make_side(*play, stops, cells));
  }
  Json data{{"stops", stops.seconds()}, {"cells", Json::array()}, {"sides", Json::array()}, {"wrong", Json::array()}};
  for (const Side& side : sides) data["sides"].push_back(side_json(side, side.play == library));
  for (const Difference& one : differences_of(sides)) {
    data["wrong"].push_back({one.buffer, one.rank, one.index, one.expected, one.found});
  }
  for (const Cell& cell : cells.all()) data["cells"].push_back({cell.value, cell.who, cell.times});
  std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

std::string show_page(const ShowPage& page) {
  const std::string failure = page.failure.empty()
                                  ? ""
                                  : "<section class=\"failed\"><h2>Your submission could not be run</h2><pre>" +
                                        escaped(page.failure.substr(0, 20000)) + "</pre></section>\n";
  const std::string script = page_file("panels.js") + page_file("script.js");
  const bool has_sides = page.student || page.library;
  return trainer::page::filled(page_file("page.html"), {{"script hash", trainer::Digest().add(script).base64()},
                                                        {"lab", escaped(page.lab)},
                                                        {"style", trainer::page::kStyle + page_file("style.css")},
                                                        {"setting", escaped(page.setting)},
                                                        {"failure", failure},
                                                        {"controls", has_sides ? page_file("controls.html") : ""},
                                                        {"data", data_json(page)},
                                                        {"script", script}});
}

}  // namespace tutti::labs
