#include <tutti/tools/plan/diagram.h>

#include <algorithm>
#include <cstdio>
#include <tuple>

namespace tutti::tools {
namespace {

using comm::Transfer;

constexpr std::size_t kColumn = 6;  // characters from rank to rank

std::string left_margin(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// One line of the diagram in the making.
struct Line {
  double start = 0;
  std::string columns;
  std::vector<bool> taken;  // per rank
  std::vector<std::size_t> sizes;
};

class Drawing {
 public:
  explicit Drawing(int world_size) : world_size_(static_cast<std::size_t>(world_size)) {}

  void add(const Transfer& transfer, bool both_ways) {
    const auto from = static_cast<std::size_t>(transfer.from);
    const auto to = static_cast<std::size_t>(transfer.to);
    const auto [left, right] = std::minmax({from, to});
    Line& line = line_for(transfer.start, left, right);
    for (std::size_t i = left; i <= right; ++i) line.taken[i] = true;
    for (std::size_t at = left * kColumn; at < right * kColumn; ++at) line.columns[at] = '-';
    line.columns[left * kColumn] = both_ways || to == left ? '<' : 'o';
    line.columns[right * kColumn] = both_ways || to == right ? '>' : 'o';
    if (std::find(line.sizes.begin(), line.sizes.end(), transfer.bytes) == line.sizes.end()) {
      line.sizes.push_back(transfer.bytes);
    }
  }

  std::string text() const {
    std::string result(14, ' ');
    for (std::size_t rank = 0; rank < world_size_; ++rank) {
      const std::string number = std::to_string(rank);
      result += number;
      if (rank + 1 < world_size_) result.append(kColumn - number.size(), ' ');
    }
    result += '\n';
    double previous = -1;
    for (const Line& line : lines_) {
      result += line.start == previous ? std::string(14, ' ') : left_margin("%9.1f us  ", line.start * 1e6);
      previous = line.start;
      result += line.columns + "  ";
      for (std::size_t i = 0; i < line.sizes.size(); ++i) {
        result += (i == 0 ? " " : ", ") + std::to_string(line.sizes[i]);
      }
      result += " B\n";
    }
    return result;
  }

 private:
  Line& line_for(double start, std::size_t left, std::size_t right) {
    for (std::size_t i = lines_.size(); i-- > 0 && lines_[i].start == start;) {
      Line& line = lines_[i];
      const auto first = line.taken.begin() + static_cast<std::ptrdiff_t>(left);
      const auto last = line.taken.begin() + static_cast<std::ptrdiff_t>(right) + 1;
      if (std::find(first, last, true) == last) return line;
    }
    Line line{start, std::string((world_size_ - 1) * kColumn + 1, ' '), std::vector<bool>(world_size_), {}};
    for (std::size_t rank = 0; rank < world_size_; ++rank) line.columns[rank * kColumn] = '|';
    return lines_.emplace_back(std::move(line));
  }

  std::size_t world_size_;
  std::vector<Line> lines_;
};

bool is_reverse(const Transfer& a, const Transfer& b) {
  return a.from == b.to && a.to == b.from && a.start == b.start && a.bytes == b.bytes;
}

}  // namespace

std::string diagram(std::vector<Transfer> transfers, int world_size) {
  std::stable_sort(transfers.begin(), transfers.end(), [](const Transfer& a, const Transfer& b) {
    return std::tuple(a.start, a.from, a.to) < std::tuple(b.start, b.from, b.to);
  });
  Drawing drawing(world_size);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const auto matches = [&](const Transfer& other) { return is_reverse(transfers[i], other); };
    const auto reverse = std::find_if(transfers.begin(), transfers.end(), matches);
    const bool both_ways = reverse != transfers.end();
    if (both_ways && reverse < transfers.begin() + static_cast<std::ptrdiff_t>(i)) continue;  // drawn already
    drawing.add(transfers[i], both_ways);
  }
  return drawing.text();
}

}  // namespace tutti::tools
