#include <tutti/tools/labs/show/parts.h>
#include <tutti/tools/labs/show/show_page.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/page/html.h>

#include <algorithm>

namespace tutti::labs {
namespace {

using namespace show;
using trainer::page::escaped;

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

std::string policy() {
  trainer::Sha256 sum;
  return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
         base64(sum.add(kShowScript, std::char_traits<char>::length(kShowScript)).digest()) + "'";
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
  const std::string id = "side" + std::to_string(index);
  return "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-title\"><p class=\"kicker\">" + kicker +
         "</p><h2 id=\"" + id + "-title\">" + escaped(side.play->title) + "</h2>" + verdict(*side.play, found) +
         tiles(side) + remarks + "<div class=\"stage\"></div>" + space_time(side, until) + rank_table(side) +
         message_list(side, cells) + "</section>\n";
}

constexpr char kControls[] = R"html(<div id="controls" hidden role="group" aria-label="player">
<div class="buttons"><button type="button" id="first" aria-label="first step">&#8676;</button>
<button type="button" id="back" aria-label="one step back">&#8592;</button>
<button type="button" id="run" aria-label="play">Play</button>
<button type="button" id="next" aria-label="one step on">&#8594;</button>
<button type="button" id="end" aria-label="last step">&#8677;</button>
<label><span>speed</span> <select id="speed"><option value="0.5">half</option><option value="1" selected>normal</option>
<option value="2">double</option><option value="4">four times</option></select></label>
<output id="where" for="slider"></output></div>
<input type="range" id="slider" min="0" max="0" value="0" step="1" aria-label="step">
<p class="small-text keys">Keys: space plays and stops, left and right arrow go one step, Home and End to the first and the last.</p>
<div id="said" class="unseen" aria-live="polite"></div></div>
)html";

constexpr char kHowToRead[] = R"html(<details class="how"><summary>How to read this</summary>
<p>Each rank's first number is 10 for rank 0, 20 for rank 1, and so on; the last digit counts the elements. Under each number
stands whose contributions are in it, and the coloured fields below have a place for each rank, from left to right. An arrow is
a message on its way. Both sides run on the same virtual network and share one time.</p></details>
)html";

// What pictures refer to: the heads of arrows and the hatching of waits.
constexpr char kDefinitions[] = R"html(<svg class="unseen" aria-hidden="true" width="0" height="0"><defs>
<marker id="go" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="4" markerHeight="4" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>
<marker id="stuck" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="4" markerHeight="4" orient="auto"><path class="head stuck" d="M0 0L8 4L0 8z"/></marker>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch" width="2" height="6"/></pattern>
</defs></svg>
)html";

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
  const std::string title = "Lab " + escaped(page.lab) + ": the messages";
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
         policy() +
         "\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<link rel=\"icon\" "
         "href=\"data:,\">\n<title>" +
         title + "</title>\n<style>" + trainer::page::kStyle + kShowStyle +
         "</style></head>\n<body class=\"show\"><main>\n<header><h1>" + title + "</h1><p>" + escaped(page.setting) +
         "</p></header>\n" + kDefinitions + kHowToRead + failure + (sides.empty() ? "" : kControls) +
         "<div class=\"sides\">" + panels + "</div></main>\n<script type=\"application/json\" id=\"data\">" +
         data_json(pointers, found, stops, cells) + "</script>\n<script>" + kShowScript + "</script></body></html>\n";
}

}  // namespace tutti::labs
