#include "mixed_operations.h"

#include <gtest/gtest.h>
#include <tutti/comm/point_to_point/point_to_point.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "conformance.h"

namespace tutti::comm::test {
namespace {

using Values = std::vector<float>;

/// The messages of one step, between neighbours in a circle and to a root.
class Messages {
 public:
  Messages(ProcessGroup& group, int step, std::size_t count, int root)
      : group_(group), step_(step), count_(count), root_(root) {}

  void sendrecv() {
    const Values outgoing = from(group_.rank());
    Values incoming(count_);
    const int source = group_.sendrecv(view(outgoing), next(), buffer(std::span(incoming)), previous());
    EXPECT_EQ(source, previous()) << where();
    EXPECT_EQ(incoming, from(previous())) << where();
  }

  /// Both ways round the circle, short and long, the second one received first.
  void both_ways() {
    const std::size_t longer = kEagerBytes / sizeof(float) + 1 + count_;
    const Values first = from(group_.rank()), second = from(group_.rank(), longer);
    Values short_one(count_), long_one(longer);
    Work sent_first = group_.isend(view(first), next(), 1);
    Work sent_second = group_.isend(view(second), previous(), 2);
    group_.recv(std::span(long_one), next(), 2);
    Work received = group_.irecv(buffer(std::span(short_one)), previous(), 1);
    sent_second.wait();
    received.wait();
    sent_first.wait();
    EXPECT_EQ(short_one, from(previous())) << where();
    EXPECT_EQ(long_one, from(next(), longer)) << where();
  }

  void from_any_source() {
    const Values mine = from(group_.rank());
    if (group_.rank() != root_) return group_.send(view(mine), root_, 100 + step_);
    for (int i = 1; i < group_.world_size(); ++i) {
      Values received(count_);
      const int source = group_.recv(std::span(received), kAnySource, 100 + step_);
      EXPECT_EQ(received, from(source)) << where();
    }
  }

  /// Beside collectives that are under way.
  void beside_collectives() {
    Values sum(count_, 1), copy = group_.rank() == root_ ? from(root_) : Values(count_), message(count_);
    const Values mine = from(group_.rank());
    Work received = group_.irecv(buffer(std::span(message)), previous(), 3);
    Work reduced = group_.all_reduce_async(buffer(std::span(sum)));
    Work copied = group_.broadcast_async(buffer(std::span(copy)), root_);
    group_.send(view(mine), next(), 3);
    copied.wait();
    received.wait();
    reduced.wait();
    EXPECT_EQ(sum, Values(count_, static_cast<float>(group_.world_size()))) << where();
    EXPECT_EQ(copy, from(root_)) << where();
    EXPECT_EQ(message, from(previous())) << where();
  }

 private:
  static ConstBuffer view(const Values& values) { return const_buffer(std::span(values)); }
  int next() const { return (group_.rank() + 1) % group_.world_size(); }
  int previous() const { return (group_.rank() + group_.world_size() - 1) % group_.world_size(); }
  Values from(int rank, std::size_t count) const {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((rank * 7 + step_ * 5) % 11) + float(i % 3);
    return values;
  }
  Values from(int rank) const { return from(rank, count_); }
  std::string where() const { return "messages of " + std::to_string(count_) + " in step " + std::to_string(step_); }

  ProcessGroup& group_;
  const int step_;
  const std::size_t count_;
  const int root_;
};

constexpr std::array kMessages = {&Messages::sendrecv, &Messages::both_ways, &Messages::from_any_source,
                                  &Messages::beside_collectives};
constexpr std::size_t kCollectives = kOfAll.size() + kRooted.size();
constexpr std::array kTypes = {DType::Float32, DType::Float64, DType::Int32, DType::UInt8};

}  // namespace

int mixed_kinds() { return static_cast<int>(kCollectives + kMessages.size()); }

void run_mixed_operations(ProcessGroup& group, std::uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  std::vector<std::size_t> kinds;
  for (int step = 0; step < steps; ++step) {
    if (kinds.empty()) {
      for (int kind = 0; kind < mixed_kinds(); ++kind) kinds.push_back(static_cast<std::size_t>(kind));
      for (std::size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[below(i)]);
    }
    const std::size_t kind = kinds.back();
    kinds.pop_back();
    const std::size_t count = below(4) == 0 ? below(3) : below(300);
    const int root = static_cast<int>(below(static_cast<std::size_t>(group.world_size())));
    const Shape shape{.dtype = kTypes[below(kTypes.size())], .count = count, .root = root, .salt = step};
    if (kind < kOfAll.size()) {
      ExactCall(group, kOfAll[kind], shape).run();
    } else if (kind < kCollectives) {
      ExactCall(group, kRooted[kind - kOfAll.size()], shape).run();
    } else {
      Messages messages(group, step, count, root);
      (messages.*kMessages[kind - kCollectives])();
    }
  }
}

}  // namespace tutti::comm::test
