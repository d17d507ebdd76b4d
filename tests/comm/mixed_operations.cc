#include "mixed_operations.h"

#include <tutti/comm/point_to_point/point_to_point.h>

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::comm::test {
namespace {

struct Choice {
  int number;         // of the step
  std::size_t count;  // elements
  int root;
};

/// One operation on elements of type T: small integers, so that sums are exact in any order.
template <typename T>
class Step {
 public:
  using Values = std::vector<T>;

  Step(ProcessGroup& group, const Choice& choice)
      : group_(group),
        choice_(choice),
        ranks_(static_cast<std::size_t>(group.world_size())),
        self_(static_cast<std::size_t>(group.rank())),
        root_(static_cast<std::size_t>(choice.root)) {
    for (std::size_t r = 0; r < ranks_; ++r)
      counts_.push_back((choice.count * (r + 1) + r * 7) % (choice.count + 3));  // some of them 0
  }

  void broadcast() {
    Values data = is_root() ? from(root_) : zeros(count());
    group_.broadcast(std::span<T>(data), choice_.root);
    expect(data, from(root_));
  }

  void reduce() {
    const Values input = from(self_);
    Values output = zeros(is_root() ? count() : 0);
    group_.reduce(view(input), is_root() ? buffer(std::span<T>(output)) : Buffer{}, ReduceOp::Max, choice_.root);
    if (is_root()) expect(output, reduced(0, [](T a, T b) { return std::max(a, b); }));
  }

  void all_reduce() {
    Values data = from(self_);
    group_.all_reduce(std::span<T>(data));
    expect(data, reduced(0, add));
  }

  void gather() {
    const Values input = from(self_);
    Values output = zeros(is_root() ? count() * ranks_ : 0);
    group_.gather(view(input), is_root() ? buffer(std::span<T>(output)) : Buffer{}, choice_.root);
    if (is_root()) expect(output, joined(std::vector(ranks_, count())));
  }

  void all_gather() {
    const Values input = from(self_);
    Values output = zeros(count() * ranks_);
    group_.all_gather(view(input), buffer(std::span<T>(output)));
    expect(output, joined(std::vector(ranks_, count())));
  }

  void scatter() {
    const Values input = is_root() ? joined(std::vector(ranks_, count())) : Values();
    Values output = zeros(count());
    group_.scatter(is_root() ? view(input) : ConstBuffer{}, buffer(std::span<T>(output)), choice_.root);
    expect(output, from(self_));
  }

  void reduce_scatter() {
    const Values input = from(self_, count() * ranks_);
    Values output = zeros(count());
    group_.reduce_scatter(view(input), buffer(std::span<T>(output)));
    expect(output, reduced(self_ * count(), add));
  }

  void all_to_all() {
    const Values input = from(self_, count() * ranks_);
    Values output = zeros(input.size());
    group_.all_to_all(view(input), buffer(std::span<T>(output)));
    Values wanted;
    for (std::size_t r = 0; r < ranks_; ++r)
      for (std::size_t i = 0; i < count(); ++i) wanted.push_back(value(r, self_ * count() + i));
    expect(output, wanted);
  }

  void gather_v() {
    const Values block = from(self_, counts_[self_]);
    Values whole = is_root() ? zeros(joined(counts_).size()) : Values();
    group_.gather_v(view(block), buffer(std::span<T>(whole)), counts_, choice_.root);
    if (is_root()) expect(whole, joined(counts_));
  }

  void scatter_v() {
    const Values whole = is_root() ? joined(counts_) : Values();
    Values block = zeros(counts_[self_]);
    group_.scatter_v(view(whole), buffer(std::span<T>(block)), counts_, choice_.root);
    expect(block, from(self_, counts_[self_]));
  }

  void all_gather_v() {
    const Values block = from(self_, counts_[self_]);
    Values whole = zeros(joined(counts_).size());
    group_.all_gather_v(view(block), buffer(std::span<T>(whole)), counts_);
    expect(whole, joined(counts_));
  }

  void barrier() { group_.barrier(); }

  void sendrecv() {
    const Values outgoing = from(self_);
    Values incoming = zeros(count());
    const int source = group_.sendrecv(view(outgoing), next(), buffer(std::span<T>(incoming)), previous());
    if (source != previous()) throw std::runtime_error(where() + "came from rank " + std::to_string(source));
    expect(incoming, from(static_cast<std::size_t>(previous())));
  }

  /// Both ways round the circle, short and long, the second one received first.
  void messages() {
    const std::size_t longer = kEagerBytes / sizeof(T) + 1 + count();
    const Values first = from(self_), second = from(self_, longer);
    Values short_one = zeros(count()), long_one = zeros(longer);
    Work sent_first = group_.isend(view(first), next(), 1);
    Work sent_second = group_.isend(view(second), previous(), 2);
    group_.recv(std::span<T>(long_one), next(), 2);
    Work received = group_.irecv(buffer(std::span<T>(short_one)), previous(), 1);
    sent_second.wait();
    received.wait();
    sent_first.wait();
    expect(short_one, from(static_cast<std::size_t>(previous())));
    expect(long_one, from(static_cast<std::size_t>(next()), longer));
  }

  void from_any_source() {
    const Values mine = from(self_);
    if (!is_root()) return group_.send(view(mine), choice_.root, 100 + choice_.number);
    for (std::size_t i = 1; i < ranks_; ++i) {
      Values received = zeros(count());
      const int source = group_.recv(std::span<T>(received), kAnySource, 100 + choice_.number);
      expect(received, from(static_cast<std::size_t>(source)));
    }
  }

  void asynchronous() {
    Values sum = from(self_), copy = is_root() ? from(root_) : zeros(count()), message = zeros(count());
    const Values mine = from(self_);
    Work received = group_.irecv(buffer(std::span<T>(message)), previous(), 3);
    Work reduced_all = group_.all_reduce_async(buffer(std::span<T>(sum)));
    Work copied = group_.broadcast_async(buffer(std::span<T>(copy)), choice_.root);
    group_.send(view(mine), next(), 3);
    copied.wait();
    received.wait();
    reduced_all.wait();
    expect(sum, reduced(0, add));
    expect(copy, from(root_));
    expect(message, from(static_cast<std::size_t>(previous())));
  }

  using Operation = void (Step::*)();
  struct Named {
    const char* name;
    Operation run;
  };
  static const std::vector<Named>& operations() {
    static const std::vector<Named> all = {
        {"broadcast", &Step::broadcast},
        {"reduce", &Step::reduce},
        {"all_reduce", &Step::all_reduce},
        {"gather", &Step::gather},
        {"all_gather", &Step::all_gather},
        {"scatter", &Step::scatter},
        {"reduce_scatter", &Step::reduce_scatter},
        {"all_to_all", &Step::all_to_all},
        {"gather_v", &Step::gather_v},
        {"scatter_v", &Step::scatter_v},
        {"all_gather_v", &Step::all_gather_v},
        {"barrier", &Step::barrier},
        {"sendrecv", &Step::sendrecv},
        {"messages", &Step::messages},
        {"from any source", &Step::from_any_source},
        {"asynchronous", &Step::asynchronous},
    };
    return all;
  }

  void run(std::size_t kind) {
    name_ = operations()[kind].name;
    (this->*operations()[kind].run)();
  }

 private:
  static T add(T a, T b) { return static_cast<T>(a + b); }
  static Values zeros(std::size_t n) { return Values(n, T(0)); }
  static ConstBuffer view(const Values& values) { return const_buffer(std::span<const T>(values)); }

  std::size_t count() const { return choice_.count; }
  bool is_root() const { return self_ == root_; }
  int next() const { return static_cast<int>((self_ + 1) % ranks_); }
  int previous() const { return static_cast<int>((self_ + ranks_ - 1) % ranks_); }

  /// Element i of what `rank` contributes: another for every step.
  T value(std::size_t rank, std::size_t i) const {
    return static_cast<T>((rank * 7 + i * 3 + static_cast<std::size_t>(choice_.number) * 5) % 11 + 1);
  }
  Values from(std::size_t rank, std::size_t n) const {
    Values values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = value(rank, i);
    return values;
  }
  Values from(std::size_t rank) const { return from(rank, count()); }

  Values joined(const std::vector<std::size_t>& counts) const {
    Values all;
    for (std::size_t r = 0; r < ranks_; ++r) {
      const Values block = from(r, counts[r]);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }

  template <typename Combine>
  Values reduced(std::size_t offset, Combine combine) const {
    Values result(count());
    for (std::size_t i = 0; i < count(); ++i) {
      result[i] = value(0, offset + i);
      for (std::size_t r = 1; r < ranks_; ++r) result[i] = combine(result[i], value(r, offset + i));
    }
    return result;
  }

  std::string where() const {
    return "step " + std::to_string(choice_.number) + ", " + name_ + " of " + std::to_string(count()) + ": ";
  }

  void expect(const Values& got, const Values& wanted) const {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (got[i] != wanted[i])
        throw std::runtime_error(where() + "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
                                 std::to_string(wanted[i]));
  }

  ProcessGroup& group_;
  const Choice choice_;
  const std::size_t ranks_;
  const std::size_t self_;
  const std::size_t root_;
  std::vector<std::size_t> counts_;
  const char* name_ = "";
};

template <typename T>
void run_step(ProcessGroup& group, const Choice& choice, std::size_t kind) {
  Step<T>(group, choice).run(kind);
}

}  // namespace

int mixed_kinds() { return static_cast<int>(Step<float>::operations().size()); }

void run_mixed_operations(ProcessGroup& group, std::uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  std::vector<std::size_t> kinds;
  for (int number = 0; number < steps; ++number) {
    if (kinds.empty()) {
      for (int kind = 0; kind < mixed_kinds(); ++kind) kinds.push_back(static_cast<std::size_t>(kind));
      for (std::size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[below(i)]);
    }
    const std::size_t kind = kinds.back();
    kinds.pop_back();
    const Choice choice{number, below(4) == 0 ? below(3) : below(300),
                        static_cast<int>(below(static_cast<std::size_t>(group.world_size())))};
    static constexpr std::array kRun = {run_step<float>, run_step<double>, run_step<std::int32_t>,
                                        run_step<std::uint8_t>};
    kRun[below(kRun.size())](group, choice, kind);
  }
}

}  // namespace tutti::comm::test
