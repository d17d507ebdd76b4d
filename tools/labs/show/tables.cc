#include <tutti/tools/labs/show/parts.h>
#include <tutti/trainer/report/page/html.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tutti::labs::show {
namespace {

using trainer::page::coordinate;
using trainer::page::escaped;

constexpr std::size_t kMostRows = 400;
constexpr std::size_t kMostDifferences = 8;

std::string cell_text(const Cell& cell) {
  if (cell.who.empty()) return cell.value;
  return cell.value + " (of " + cell.who + ")";
}

std::string carried(const Shown& event, const Cells& cells) {
  if (event.carries.empty()) return event.bytes == 0 ? "nothing" : "not known";
  std::string text;
  for (const int cell : event.carries) text += (text.empty() ? "" : ", ") + cell_text(cells.at(cell));
  return text + (event.bytes > event.carries.size() * sizeof(std::uint64_t) ? ", ..." : "");
}

std::string heads(const std::vector<std::string>& names) {
  std::string row;
  for (const std::string& name : names) {
    row += name.empty() ? "<th class=\"wide\"></th>" : "<th scope=\"col\">" + name + "</th>";
  }
  return "<tr>" + row + "</tr>";
}

/// The ranks whose waits form a cycle, in its order: the first entries, by PlayWait's promise, as far as that holds.
std::size_t cycle_length(const std::vector<PlayWait>& waits) {
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].peer == waits[0].rank) return i + 1;
    if (i + 1 < waits.size() && waits[i].peer != waits[i + 1].rank) return 0;
  }
  return 0;
}

/// The ranks of the cycle on a circle, each with an arrow to the one it waits for.
std::string cycle_picture(const std::vector<PlayWait>& waits, std::size_t size) {
  constexpr double kSize = 200, kRadius = 70, kBall = 17;
  const auto at = [&](std::size_t i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size) - std::numbers::pi / 2;
    return std::pair(kSize / 2 + kRadius * std::cos(angle), kSize / 2 + kRadius * std::sin(angle));
  };
  std::string svg =
      "<svg class=\"cycle\" viewBox=\"0 0 200 200\" role=\"img\" aria-label=\"the cycle of ranks that wait "
      "for each other\">";
  for (std::size_t i = 0; i < size; ++i) {
    const auto [ax, ay] = at(i);
    const auto [bx, by] = at((i + 1) % size);
    const double length = std::hypot(bx - ax, by - ay);
    if (length == 0) continue;
    const double ux = (bx - ax) / length, uy = (by - ay) / length;
    // Bent to the right, so that there and back do not lie on each other.
    const double bend = 0.22 * length;
    svg += "<path class=\"stuck-line\" marker-end=\"url(#stuck)\" d=\"M" + coordinate(ax + ux * kBall - uy * 6) + " " +
           coordinate(ay + uy * kBall + ux * 6) + "Q" + coordinate((ax + bx) / 2 - uy * bend) + " " +
           coordinate((ay + by) / 2 + ux * bend) + " " + coordinate(bx - ux * (kBall + 3) - uy * 6) + " " +
           coordinate(by - uy * (kBall + 3) + ux * 6) + "\"/>";
  }
  for (std::size_t i = 0; i < size; ++i) {
    const auto [x, y] = at(i);
    svg += "<circle class=\"ball\" cx=\"" + coordinate(x) + "\" cy=\"" + coordinate(y) + "\" r=\"" + coordinate(kBall) +
           "\"/><text class=\"tick mid\" x=\"" + coordinate(x) + "\" y=\"" + coordinate(y + 4) + "\">" +
           std::to_string(waits[i].rank) + "</text>";
  }
  return svg + "</svg>";
}

}  // namespace

std::string scrolling(const std::string& label, const std::string& body) {
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + label + "\">" + body + "</div>";
}

std::string rank_table(const Side& side) {
  double longest = 0;
  for (const RankLine& line : side.ranks) longest = std::max(longest, line.waiting);
  std::string rows = heads({"rank", "waits", "done after", "sent", "received", "bytes sent", ""});
  for (std::size_t rank = 0; rank < side.ranks.size(); ++rank) {
    const RankLine& line = side.ranks[rank];
    const bool is_stuck = line.finish == kNever;
    const double share = is_stuck ? 100 : longest > 0 ? 100 * line.waiting / longest : 0;
    rows += "<tr><th scope=\"row\">" + std::to_string(rank) + "</th><td>" +
            (is_stuck ? "for ever" : time_text(line.waiting)) + "</td><td>" + time_text(line.finish) + "</td><td>" +
            std::to_string(line.sent) + "</td><td>" + std::to_string(line.received) + "</td><td>" +
            trainer::page::bytes(static_cast<double>(line.bytes_sent)) +
            "</td><td class=\"wide\"><span class=\"bar w-bar\" style=\"width:" + coordinate(share) +
            "%\"></span></td></tr>";
  }
  return "<figure><figcaption>Each rank: how long it waits, and its messages</figcaption>" +
         scrolling("figures of each rank", "<table class=\"plain bars\">" + rows + "</table>") + "</figure>";
}

std::string message_list(const Side& side, const Cells& cells) {
  std::string rows = heads({"time", "from, to", "tag", "bytes", "carries"});
  std::size_t messages = 0;
  for (const Shown& event : side.events) {
    if (event.kind != PlayEvent::Kind::Send || ++messages > kMostRows) continue;
    rows += "<tr data-first=\"" + std::to_string(event.first) + "\" data-last=\"" + std::to_string(event.last) +
            "\"><td>" + time_text(event.begin) + " to " + time_text(event.end) + "</td><td>" +
            std::to_string(event.rank) + " &rarr; " + std::to_string(event.peer) + "</td><td>" +
            (event.tag != 0 ? std::to_string(event.tag) : "") + "</td><td>" +
            trainer::page::bytes(static_cast<double>(event.bytes)) + "</td><td>" + escaped(carried(event, cells)) +
            "</td></tr>";
  }
  if (messages == 0) return "<p class=\"absent\">No message was sent.</p>";
  std::string html = "<details open class=\"messages\"><summary>All " + std::to_string(messages) +
                     (messages == 1 ? " message" : " messages") + " as a list</summary>" +
                     scrolling("list of messages", "<table class=\"plain\">" + rows + "</table>");
  if (messages > kMostRows) {
    html += "<p class=\"small-text\">and " + std::to_string(messages - kMostRows) + " more</p>";
  }
  return html + "</details>";
}

std::string deadlock_box(const Play& play) {
  const std::size_t size = cycle_length(play.deadlock);
  std::string list;
  for (std::size_t i = 0; i < std::min(play.deadlock.size(), std::size_t{64}); ++i) {
    const PlayWait& wait = play.deadlock[i];
    list += "<li><b>" + std::to_string(wait.rank) + " waits for " +
            (wait.peer < 0 ? "anybody" : std::to_string(wait.peer)) + "</b>" +
            (wait.text.empty() ? "" : " <span>in " + escaped(wait.text.substr(0, 300)) + "</span>") +
            (size == 0 || i < size ? "" : " <span>(not in the cycle)</span>") + "</li>";
  }
  const bool is_drawn = size >= 2 && size <= static_cast<std::size_t>(kMostPlayRanks);
  const std::string why = size > 0 ? "These ranks wait for each other, and none of them can go on:"
                                   : "These ranks wait for what nobody will do:";
  // Without a cycle the referee's own sentence knows more: who has returned already.
  const std::string sentence = size > 0 ? "" : "<p>" + escaped(play.explanation.substr(0, 2000)) + "</p>";
  return "<div class=\"warning deadlock\"><div><p><b>Deadlock.</b> " + why + "</p>" + sentence + "<ol>" + list +
         "</ol></div>" + (is_drawn ? cycle_picture(play.deadlock, size) : "") + "</div>";
}

std::string difference_box(const Side& student, const std::vector<Difference>& found, const Cells& cells) {
  if (found.empty()) return "";
  std::string rows;
  for (std::size_t i = 0; i < std::min(found.size(), kMostDifferences); ++i) {
    const Difference& one = found[i];
    rows += "<li>rank " + std::to_string(one.rank) + ", " +
            escaped(student.buffers[static_cast<std::size_t>(one.buffer)].name) + "[" + std::to_string(one.index) +
            "]: " + (one.found < 0 ? "nothing" : escaped(cell_text(cells.at(one.found)))) + ", and should be " +
            escaped(cell_text(cells.at(one.expected))) + "</li>";
  }
  if (found.size() > kMostDifferences) {
    rows += "<li>and " + std::to_string(found.size() - kMostDifferences) + " more</li>";
  }
  return "<div class=\"warning\"><p>At the end these elements are not what they should be; the player marks them with "
         "&ldquo;&ne;&rdquo;:</p><ul>" +
         rows + "</ul></div>";
}

}  // namespace tutti::labs::show
