#include <tutti/tools/labs/show/parts.h>
#include <tutti/trainer/report/page/html.h>

#include <algorithm>
#include <cmath>

namespace tutti::labs::show {
namespace {

using trainer::page::coordinate;
using trainer::page::escaped;

constexpr double kWidth = 640, kLeft = 34, kRight = 26, kTop = 6, kLane = 26, kBottom = 24;

/// Where things lie in the picture.
struct Frame {
  double until = 1;
  double x(double seconds) const { return kLeft + std::min(seconds, until) / until * (kWidth - kLeft - kRight); }
  static double top(int rank) { return kTop + rank * kLane; }
  static double middle(int rank) { return top(rank) + kLane / 2; }
};

std::string rect(const std::string& kind, double x, double y, double width, double height, const std::string& title) {
  return "<rect class=\"" + kind + "\" x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" +
         coordinate(std::max(width, 0.5)) + "\" height=\"" + coordinate(height) + "\"><title>" + escaped(title) +
         "</title></rect>";
}

std::string span_text(const Shown& event) { return time_text(event.begin) + " to " + time_text(event.end); }

/// Sending is the upper part of a lane, receiving the lower one, adding the middle, waiting all of it.
std::string bar(const Shown& event, const Frame& frame) {
  const double from = frame.x(event.begin), width = frame.x(event.end) - from, top = Frame::top(event.rank);
  const std::string rank = "rank " + std::to_string(event.rank), peer = std::to_string(event.peer);
  switch (event.kind) {
    case PlayEvent::Kind::Send:
      return rect("b-send", from, top + 3, width, 6, rank + " sends to " + peer + ", " + span_text(event));
    case PlayEvent::Kind::Recv:
      return rect("b-recv", from, top + 17, width, 6, rank + " receives from " + peer + ", " + span_text(event));
    case PlayEvent::Kind::Combine:
      return rect("b-add", from, top + 10, width, 6, rank + " adds, " + span_text(event));
    case PlayEvent::Kind::Wait:
      return rect(event.end == kNever ? "b-wait never" : "b-wait", from, top + 3, width, 20,
                  rank + " waits for " + (event.peer < 0 ? "anybody" : peer) + ", " + span_text(event) +
                      (event.text.empty() ? "" : " (" + event.text + ")"));
    default:
      return "";
  }
}

std::string arrow(const Shown& event, const Frame& frame) {
  if (event.kind != PlayEvent::Kind::Send || event.end == kNever) return "";
  return "<line class=\"flight\" x1=\"" + coordinate(frame.x(event.begin)) + "\" y1=\"" +
         coordinate(Frame::middle(event.rank)) + "\" x2=\"" + coordinate(frame.x(event.end)) + "\" y2=\"" +
         coordinate(Frame::middle(event.peer)) + "\"/>";
}

/// 1, 2 or 5 times a power of ten, about five of them.
std::string time_axis(const Frame& frame, double bottom) {
  const double rough = frame.until / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough <= power       ? power
                      : rough <= 2 * power ? 2 * power
                      : rough <= 5 * power ? 5 * power
                                           : 10 * power;
  std::string svg;
  for (double mark = 0; mark <= frame.until * 1.0001; mark += step) {
    const std::string x = coordinate(frame.x(mark));
    svg += "<line class=\"grid\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" + coordinate(kTop) + "\" y2=\"" +
           coordinate(bottom) + "\"/><text class=\"tick mid\" x=\"" + x + "\" y=\"" + coordinate(bottom + 16) + "\">" +
           time_text(mark) + "</text>";
  }
  return svg;
}

constexpr char kLegend[] =
    "<ul class=\"legend\"><li><span class=\"key box k-send\"></span>sends (upper)</li><li><span class=\"key box "
    "k-add\"></span>adds (middle)</li><li><span class=\"key box k-recv\"></span>receives (lower)</li><li><span "
    "class=\"key box k-wait\"></span>waits (hatched)</li></ul>";

}  // namespace

std::string time_text(double seconds) {
  if (seconds == kNever) return "never";
  return seconds == 0 ? "0" : trainer::page::duration(seconds);
}

std::string space_time(const Side& side, double until) {
  const Frame frame{until > 0 ? until : 1};
  const int ranks = static_cast<int>(side.ranks.size());
  const double bottom = kTop + ranks * kLane;
  std::string svg =
      "<svg class=\"spacetime\" viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(bottom + kBottom) +
      "\" role=\"img\" aria-label=\"" +
      escaped("What each rank of " + side.play->title + " does over time; the table of messages says the same") +
      "\">" + time_axis(frame, bottom);
  for (int rank = 0; rank < ranks; ++rank) {
    svg += "<rect class=\"lane\" x=\"" + coordinate(kLeft) + "\" y=\"" + coordinate(Frame::top(rank) + 3) +
           "\" width=\"" + coordinate(kWidth - kLeft - kRight) + "\" height=\"20\"/><text class=\"tick end\" x=\"" +
           coordinate(kLeft - 8) + "\" y=\"" + coordinate(Frame::middle(rank) + 4) + "\">" + std::to_string(rank) +
           "</text>";
  }
  for (const Shown& event : side.events) {
    if (event.kind == PlayEvent::Kind::Wait) svg += bar(event, frame);
  }
  for (const Shown& event : side.events) {
    if (event.kind != PlayEvent::Kind::Wait) svg += bar(event, frame);
  }
  for (const Shown& event : side.events) svg += arrow(event, frame);
  svg += "<line class=\"cursor\" x1=\"" + coordinate(kLeft) + "\" x2=\"" + coordinate(kLeft) + "\" y1=\"0\" y2=\"" +
         coordinate(bottom) + "\" data-left=\"" + coordinate(kLeft) + "\" data-right=\"" + coordinate(kWidth - kRight) +
         "\" data-until=\"" + trainer::page::number(frame.until, 12) + "\"/></svg>";
  return "<figure><figcaption>Ranks over time</figcaption>" + std::string(kLegend) + scrolling("ranks over time", svg) +
         "</figure>";
}

}  // namespace tutti::labs::show
