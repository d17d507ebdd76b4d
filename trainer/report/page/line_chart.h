// Line charts as inline SVG: axes with round numbers, lines, points that tell their values when the mouse rests on
// them.
//
// Colours are CSS classes (s0, s1, ... of style.h), so that one picture serves light and dark. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tutti::trainer::page {

using Points = std::vector<std::pair<double, double>>;  // x ascending; a y that is no number leaves a gap

struct Series {
  std::string name{};
  int colour = 0;  // 0 ... 7
  Points points{};
  bool is_faint = false;     // a thin line behind the others
  bool has_markers = false;  // a dot at each point
};

struct ChartText {
  std::string title{};  // read aloud
  std::string x_name{};
  std::string y_name{};
  bool from_zero = false;  // the y axis begins at 0
  bool as_percent = false;
};

/// Large values beside small ones (a factor of 12) get a logarithmic axis, which the axis says.
std::string line_chart(const ChartText& text, const std::vector<Series>& series);

/// At most `most` points: means over equal parts of the series.
Points thinned(const Points& points, std::size_t most);

}  // namespace tutti::trainer::page
