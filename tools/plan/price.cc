#include <tutti/comm/base/format.h>
#include <tutti/tools/plan/price.h>

#include <algorithm>
#include <tuple>

namespace tutti::tools {
namespace {

using comm::Problem;
using comm::Schedule;
using comm::Step;

constexpr std::size_t kMostSteps = 6'000'000;  // of all ranks together: a gigabyte in the simulator

Schedule schedule_of(const Question& question, std::string_view algorithm, int rank) {
  Problem problem = question.problem;
  problem.rank = rank;
  return comm::algorithms::select(problem, question.element_bytes, algorithm);
}

void look_at(const Question& question, const Schedule& schedule, Price& price) {
  std::uint64_t messages[2] = {0, 0};  // sent, received
  std::uint64_t bytes[2] = {0, 0};
  for (const Step& step : schedule.steps) {
    if (step.kind == Step::Kind::Copy || step.kind == Step::Kind::Reduce) continue;
    const bool is_send = step.kind == Step::Kind::Send;
    ++messages[is_send ? 0 : 1];
    bytes[is_send ? 0 : 1] += (is_send ? step.source.count : step.target.count) * question.element_bytes;
  }
  price.steps = std::max(price.steps, schedule.steps.size());
  price.messages = std::max({price.messages, messages[0], messages[1]});
  price.bytes = std::max({price.bytes, bytes[0], bytes[1]});
}

/// The root, its neighbours, both ends of the world, and some in between.
std::vector<int> sample(const Problem& problem) {
  const int p = problem.world_size;
  std::vector<int> ranks = {problem.root, (problem.root + 1) % p, (problem.root + p - 1) % p, p - 1};
  for (int i = 0; i < 64; ++i) ranks.push_back(static_cast<int>(static_cast<std::int64_t>(p) * i / 64));
  return ranks;
}

std::string millions(std::size_t steps) { return std::to_string(steps / 1'000'000) + " million"; }

/// Notes and the simulated time. `all_steps` is an upper estimate of the steps of all ranks.
void simulate(const Question& question, std::size_t all_steps, Price& price) {
  Problem problem = question.problem;
  if (!comm::algorithms::rotates(problem, price.algorithm) && all_steps > kMostSteps) {
    // With chunks of one length a single rank's schedule stands for all.
    const auto p = static_cast<std::size_t>(problem.world_size);
    problem.count = (problem.count + p - 1) / p * p;
    if (!comm::algorithms::rotates(problem, price.algorithm)) {
      price.notes.push_back(price.algorithm + " was not simulated: up to " + millions(all_steps) +
                            " steps are too many (at most " + millions(kMostSteps) + ")");
      return;
    }
    price.notes.push_back(price.algorithm + " was simulated with " +
                          std::to_string(problem.count * question.element_bytes) +
                          " bytes, which make chunks of one length");
  }
  price.simulated_seconds = comm::simulate(problem, question.element_bytes, price.algorithm, question.network).finish();
}

using comm::Transfer;

constexpr std::size_t kColumn = 6;  // characters from rank to rank

/// One line of the diagram in the making.
struct Line {
  double start = 0;
  std::string columns;
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
      result += line.start == previous ? std::string(14, ' ') : comm::format("%9.1f us  ", line.start * 1e6);
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
      const std::string_view columns = std::string_view(lines_[i].columns).substr(left * kColumn);
      if (columns.substr(0, (right - left) * kColumn + 1).find_first_not_of(" |") == columns.npos) return lines_[i];
    }
    Line line{start, std::string((world_size_ - 1) * kColumn + 1, ' '), {}};
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

std::vector<std::string_view> fitting_algorithms(const Question& question) {
  std::vector<std::string_view> result = comm::algorithms::names_for(question.problem.op);
  std::erase_if(result, [&](std::string_view name) {
    const bool is_hierarchical = name.rfind("hierarchical", 0) == 0;
    return (is_hierarchical && question.problem.hosts.empty()) || schedule_of(question, name, 0).algorithm != name;
  });
  return result;
}

Price price(const Question& question, std::string_view algorithm) {
  Price result;
  result.algorithm = algorithm;
  const Problem& problem = question.problem;
  look_at(question, schedule_of(question, algorithm, problem.root), result);
  if (!comm::algorithms::rotates(problem, algorithm)) {
    const bool is_too_much = result.steps * static_cast<std::size_t>(problem.world_size) > kMostSteps;
    if (is_too_much) {
      result.notes.push_back(result.algorithm + ": the busiest of 68 ranks that were looked at");
      for (const int rank : sample(problem)) look_at(question, schedule_of(question, algorithm, rank), result);
    } else {
      for (int rank = 0; rank < problem.world_size; ++rank) {
        look_at(question, schedule_of(question, algorithm, rank), result);
      }
    }
  }
  result.predicted_seconds = comm::predicted_seconds(problem, question.element_bytes, algorithm, question.network);
  if (question.simulate) simulate(question, result.steps * static_cast<std::size_t>(problem.world_size), result);
  return result;
}

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
