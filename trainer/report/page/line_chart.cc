#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/line_chart.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::trainer::page {
namespace {

constexpr double kWidth = 480, kHeight = 260;
constexpr double kLeft = 58, kRight = 14, kTop = 14, kBottom = 40;
constexpr double kLogarithmicFrom = 12;

/// Not infinity, and far enough from it that differences are none either.
bool is_drawn(double value) { return std::abs(value) < 1e150; }

struct Axis {
  double low = 0, high = 1;
  bool is_logarithmic = false;
  double from = 0, to = 1;  // where low and high lie in the picture

  double place(double value) const {
    const double share = is_logarithmic ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low))
                                        : (value - low) / (high - low);
    return from + share * (to - from);
  }
};

/// 1, 2 or 5 times a power of ten: at most `most` of them fit into `range`.
double round_step(double range, int most) {
  const double rough = range / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

/// Powers of ten, with 2 and 5 times them where there are few.
std::vector<double> logarithmic_marks(const Axis& axis) {
  const int first = static_cast<int>(std::floor(std::log10(axis.low)));
  const int last = static_cast<int>(std::floor(std::log10(axis.high)));
  const int stride = 1 + (last - first) / 8;
  std::vector<double> marks;
  for (int power = first; power <= last; power += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double mark = factor * std::pow(10, power);
      if (factor > 1 && last - first > 3) continue;
      if (mark >= axis.low * 0.999 && mark <= axis.high * 1.001) marks.push_back(mark);
    }
  }
  return marks;
}

std::vector<double> marks_of(const Axis& axis, int most) {
  if (axis.is_logarithmic) return logarithmic_marks(axis);
  std::vector<double> marks;
  const double step = round_step(axis.high - axis.low, most);
  for (double mark = std::ceil(axis.low / step - 1e-9) * step; mark <= axis.high + step * 1e-6; mark += step) {
    marks.push_back(std::abs(mark) < step * 1e-9 ? 0 : mark);
  }
  return marks;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!is_drawn(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
};

Axis x_axis(const std::vector<Series>& series) {
  Range range;
  for (const Series& one : series) {
    for (const auto& [x, y] : one.points) range.add(x);
  }
  Axis axis{.low = range.low, .high = range.high};
  if (range.is_empty()) axis = {};
  axis.low = std::min(axis.low, 0.0);
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  axis.from = kLeft;
  axis.to = kWidth - kRight;
  return axis;
}

Axis y_axis(const std::vector<Series>& series, const ChartText& text) {
  Range range;
  for (const Series& one : series) {
    for (const auto& [x, y] : one.points) range.add(y);
  }
  Axis axis{.low = range.low, .high = range.high};
  if (range.is_empty()) axis = {};
  axis.is_logarithmic = !text.from_zero && axis.low > 0 && axis.high > kLogarithmicFrom * axis.low;
  if (axis.is_logarithmic) {
    axis.low *= 0.9;
    axis.high *= 1.1;
  } else {
    if (text.from_zero) axis.low = std::min(axis.low, 0.0);
    double room = 0.05 * (axis.high - axis.low);
    if (room <= 0) room = axis.high == 0 ? 0.5 : 0.1 * std::abs(axis.high);
    axis.high += room;
    if (!text.from_zero) axis.low = axis.low >= 0 ? std::max(0.0, axis.low - room) : axis.low - room;
    if (text.as_percent) axis.high = std::min(axis.high, 1.0);
    if (axis.high <= axis.low) axis.low = axis.high - room;
  }
  axis.from = kHeight - kBottom;
  axis.to = kTop;
  return axis;
}

std::string label_of(double value, const ChartText& text) {
  return text.as_percent ? number(100 * value, 4) + " %" : number(value, 4);
}

std::string line_of(const Series& one, const Axis& x, const Axis& y) {
  std::string path;
  bool is_open = false;
  for (const auto& [at, value] : one.points) {
    if (!is_drawn(value)) {
      is_open = false;
      continue;
    }
    path += (is_open ? "L" : "M") + coordinate(x.place(at)) + " " + coordinate(y.place(value));
    is_open = true;
  }
  return "<path class=\"line s" + std::to_string(one.colour) + (one.is_faint ? " faint" : "") + "\" d=\"" + path +
         "\"/>";
}

std::string markers_of(const Series& one, const Axis& x, const Axis& y, const ChartText& text) {
  std::string svg;
  for (const auto& [at, value] : one.points) {
    if (!is_drawn(value)) continue;
    svg += "<circle class=\"dot s" + std::to_string(one.colour) + "\" cx=\"" + coordinate(x.place(at)) + "\" cy=\"" +
           coordinate(y.place(value)) + "\" r=\"3.5\"><title>" + escaped(one.name) + " " + label_of(value, text) +
           " (" + escaped(text.x_name) + " " + number(at, 6) + ")</title></circle>";
  }
  return svg;
}

std::string grid(const Axis& x, const Axis& y, const ChartText& text) {
  std::string svg;
  for (const double mark : marks_of(y, 6)) {
    const std::string at = coordinate(y.place(mark));
    svg += "<line class=\"grid\" x1=\"" + coordinate(kLeft) + "\" x2=\"" + coordinate(kWidth - kRight) + "\" y1=\"" +
           at + "\" y2=\"" + at + "\"/><text class=\"tick end\" x=\"" + coordinate(kLeft - 8) + "\" y=\"" +
           coordinate(y.place(mark) + 4) + "\">" + label_of(mark, text) + "</text>";
  }
  for (const double mark : marks_of(x, 8)) {
    svg += "<text class=\"tick mid\" x=\"" + coordinate(x.place(mark)) + "\" y=\"" +
           coordinate(kHeight - kBottom + 18) + "\">" + number(mark, 6) + "</text>";
  }
  svg += "<line class=\"axis\" x1=\"" + coordinate(kLeft) + "\" x2=\"" + coordinate(kWidth - kRight) + "\" y1=\"" +
         coordinate(kHeight - kBottom) + "\" y2=\"" + coordinate(kHeight - kBottom) + "\"/>";
  return svg + "<text class=\"tick mid\" x=\"" + coordinate((kLeft + kWidth - kRight) / 2) + "\" y=\"" +
         coordinate(kHeight - 5) + "\">" + escaped(text.x_name) + "</text>";
}

std::string legend(const std::vector<Series>& series) {
  std::string html = "<ul class=\"legend\">";
  for (const Series& one : series) {
    html += "<li><span class=\"key s" + std::to_string(one.colour) + (one.is_faint ? " faint" : "") + "\"></span>" +
            escaped(one.name) + "</li>";
  }
  return html + "</ul>";
}

}  // namespace

std::string line_chart(const ChartText& text, const std::vector<Series>& series) {
  const Axis x = x_axis(series);
  const Axis y = y_axis(series, text);
  std::string svg = "<svg class=\"chart\" viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) +
                    "\" role=\"img\" aria-label=\"" + escaped(text.title) + "\">" + grid(x, y, text);
  for (const Series& one : series) svg += line_of(one, x, y);
  for (const Series& one : series) {
    if (one.has_markers) svg += markers_of(one, x, y, text);
  }
  return "<figure><figcaption>" + escaped(text.y_name) + (y.is_logarithmic ? ", logarithmic" : "") + "</figcaption>" +
         (series.size() > 1 ? legend(series) : "") + svg + "</svg></figure>";
}

Points thinned(const Points& points, std::size_t most) {
  if (points.size() <= most) return points;
  Points result;
  for (std::size_t part = 0; part < most; ++part) {
    const std::size_t begin = part * points.size() / most;
    const std::size_t end = (part + 1) * points.size() / most;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += points[i].second;
    result.emplace_back(points[end - 1].first, sum / static_cast<double>(end - begin));
  }
  return result;
}

}  // namespace tutti::trainer::page
