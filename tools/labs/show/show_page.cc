#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/show/parts.h>
#include <tutti/tools/labs/show/show_page.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/report/page/html.h>

#include <algorithm>
#include <map>

namespace tutti::labs {
namespace {

using namespace show;
using trainer::page::escaped;

std::string_view page_file(std::string_view name) {
  const auto files = page_files();
  return std::find_if(files.begin(), files.end(), [&](const EmbeddedFile& file) { return file.path == name; })->text;
}

/// A page file with `{{name}}` replaced by its value. Values are not looked into.
std::string filled(std::string_view name, const std::map<std::string, std::string, std::less<>>& values) {
  std::string html;
  std::string_view rest = page_file(name);
  for (std::size_t at = 0; (at = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t end = rest.find("}}", at);
    html += std::string(rest.substr(0, at)) + values.at(std::string(rest.substr(at + 2, end - at - 2)));
    rest.remove_prefix(end + 2);
  }
  return html + std::string(rest);
}

std::string policy(std::string_view script) {
  return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
         trainer::Digest().add(script).base64() + "'";
}

std::string tile(const std::string& name, const std::string& value, const std::string& what) {
  return "<div class=\"tile\"><b" + (name.empty() ? "" : " data-count=\"" + name + "\"") + ">" + value + "</b><span>" +
         what + "</span></div>";
}

std::string tiles(const Side& side) {
  const Play& play = *side.play;
  std::string html = tile("messages", std::to_string(side.messages), "messages") +
                     tile("bytes", trainer::page::bytes(static_cast<double>(side.bytes)), "sent by all ranks");
  html += tile("time", play.outcome == Play::Outcome::Deadlock ? "never done" : time_text(side.end), "of virtual time");
  if (play.bound_seconds > 0 && side.end > 0) {
    const double ratio = side.end / play.bound_seconds;
    const std::string times = play.outcome == Play::Outcome::Deadlock ? ""
                              : ratio < 1.005                         ? "; this run is as fast"
                                              : "; this run takes " + trainer::page::number(ratio, 3) + " times that";
    html += tile("", time_text(play.bound_seconds), "no algorithm beats this" + times);
  }
  return "<div class=\"tiles small\">" + html + "</div>";
}

std::string verdict(const Play& play, const std::string& found) {
  const std::string why = play.explanation.empty() ? "" : " " + escaped(play.explanation.substr(0, 2000));
  switch (play.outcome) {
    case Play::Outcome::Right:
      if (found.empty()) return "";
      [[fallthrough]];
    case Play::Outcome::Wrong:
      return "<p class=\"warning\"><b>The result is wrong.</b>" + why + "</p>" + found;
    case Play::Outcome::Deadlock:
      return deadlock_box(play);
    case Play::Outcome::Failed:
      return "<p class=\"warning\"><b>The run did not come to its end.</b>" + why + "</p>";
  }
  return "";
}

std::string panel(const Side& side, std::size_t index, const std::string& kicker, const std::string& found,
                  double until, const Cells& cells) {
  std::string remarks;
  for (const std::string& remark : side.remarks) remarks += "<p class=\"small-text\">" + escaped(remark) + "</p>";
  return filled("panel.html", {{"id", "side" + std::to_string(index)},
                               {"kicker", kicker},
                               {"title", escaped(side.play->title)},
                               {"verdict", verdict(*side.play, found)},
                               {"tiles", tiles(side)},
                               {"remarks", remarks},
                               {"space_time", space_time(side, until)},
                               {"rank_table", rank_table(side)},
                               {"message_list", message_list(side, cells)}});
}

}  // namespace

std::string show_page(const ShowPage& page) {
  const Play* student = page.student ? &*page.student : nullptr;
  const Play* library = page.library ? &*page.library : nullptr;
  const Stops stops({student, library});
  Cells cells(student != nullptr ? student->world_size : library != nullptr ? library->world_size : 1);
  std::vector<Side> sides;
  for (const Play* play : {student, library}) {
    if (play != nullptr) sides.push_back(make_side(*play, stops, cells));
  }
  const bool is_comparable =
      sides.size() == 2 && (student->outcome == Play::Outcome::Right || student->outcome == Play::Outcome::Wrong);
  const std::vector<Difference> found = is_comparable ? differences(sides[0], sides[1]) : std::vector<Difference>{};
  double until = 0;
  bool never_ends = false;
  for (const Side& side : sides) {
    until = std::max(until, side.end);
    for (const Shown& event : side.events) never_ends = never_ends || event.end == kNever;
  }
  if (never_ends) until = until > 0 ? 1.2 * until : 1e-6;  // room for what goes on for ever

  std::string panels;
  std::vector<const Side*> pointers;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const bool is_student = sides[i].play == student;
    panels += panel(sides[i], i, is_student ? "Your submission" : "The library",
                    is_student ? difference_box(sides[i], found, cells) : "", until, cells);
    pointers.push_back(&sides[i]);
  }
  const std::string failure = page.failure.empty()
                                  ? ""
                                  : "<section class=\"failed\"><h2>Your submission could not be run</h2><pre>" +
                                        escaped(page.failure.substr(0, 20000)) + "</pre></section>\n";
  const std::string_view script = page_file("script.js");
  return filled("page.html", {{"policy", policy(script)},
                              {"lab", escaped(page.lab)},
                              {"style", trainer::page::kStyle + std::string(page_file("style.css"))},
                              {"setting", escaped(page.setting)},
                              {"failure", failure},
                              {"controls", sides.empty() ? "" : std::string(page_file("controls.html"))},
                              {"panels", panels},
                              {"data", data_json(pointers, found, stops, cells)},
                              {"script", std::string(script)}});
}

}  // namespace tutti::labs
