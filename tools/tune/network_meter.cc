#include <tutti/comm/reduce/reduce.h>
#include <tutti/tools/tune/network_meter.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace tutti::tools {
namespace {

using comm::MeasuredCurve;

constexpr std::size_t kElementBytes = sizeof(float);
constexpr std::size_t kBounceElements = 32 * 1024;  // the executor's
constexpr double kShortest = 1e-7;                  // seconds: no message took less

// Of gathered arrays; two ranks gather a longest one, too, so that they exchange kMostBytes.
constexpr std::size_t kWholeBytes[] = {1 << 11, 1 << 13, 1 << 15, 1 << 16, 1 << 17, 1 << 18,
                                       1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24};
constexpr std::size_t kLongestWhole = 1 << 25;
constexpr std::size_t kHopBytes[] = {1 << 9, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
constexpr std::size_t kSumBytes[] = {1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
constexpr std::size_t kMostBytes = 1 << 24;

double log2_rounded_up(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

}  // namespace

NetworkMeter::NetworkMeter(comm::ProcessGroup& group)
    : group_(group), memory_(kLongestWhole / kElementBytes, 1.0F), incoming_(kBounceElements) {
  const int self = group.rank();
  alone_ = group.subgroup(std::span(&self, 1));
  if (group.world_size() > 2 && group.world_size() % 2 == 0) pair_ = group.split(self / 2);
  add_startup();
  for (const std::size_t bytes : kWholeBytes) add_messages(bytes);
  if (group.world_size() == 2) add_messages(kLongestWhole);
  for (const std::size_t bytes : kHopBytes) add_hops(bytes);
  for (const std::size_t bytes : kSumBytes) add_sums(bytes);
  for (auto* list : {&startup_, &messages_, &exchanges_, &repeats_, &hops_, &sums_}) {
    for (Sized& each : *list) by_size_.push_back(&each);
  }
  std::stable_sort(by_size_.begin(), by_size_.end(),
                   [](const Sized* a, const Sized* b) { return a->bytes < b->bytes; });
}

void NetworkMeter::add_startup() {
  const auto call = [this] { alone_->broadcast({memory_.data(), 1, comm::DType::Float32}, 0); };
  startup_.push_back({0, Meter("", call)});
}

void NetworkMeter::add_messages(std::size_t whole_bytes) {
  const auto p = static_cast<std::size_t>(group_.world_size());
  const std::size_t count = std::max<std::size_t>(1, whole_bytes / kElementBytes / p);
  const auto block = static_cast<double>(count * kElementBytes);
  messages_.push_back({block, Meter("ring", [this, count] { gather(group_, count); })});
  if (pair_) repeats_.push_back({block, Meter("", [this, count] { gather(*pair_, count); })});
  if (!std::has_single_bit(p)) return;
  // Of blocks, twice as many in each round: the mean message stands for them.
  exchanges_.push_back({block * static_cast<double>(p - 1) / log2_rounded_up(group_.world_size()),
                        Meter("recursive_doubling", [this, count] { gather(group_, count); })});
}

/// In place: no block is copied but by messages.
void NetworkMeter::gather(comm::ProcessGroup& group, std::size_t count) {
  const auto p = static_cast<std::size_t>(group.world_size());
  const float* own = memory_.data() + static_cast<std::size_t>(group.rank()) * count;
  group.all_gather({own, count, comm::DType::Float32}, {memory_.data(), p * count, comm::DType::Float32});
}

void NetworkMeter::add_hops(std::size_t bytes) {
  const auto call = [this, count = bytes / kElementBytes] {
    const comm::Buffer all{memory_.data(), count, comm::DType::Float32};
    const comm::Buffer none{nullptr, 0, comm::DType::Float32};
    group_.reduce({memory_.data(), count, comm::DType::Float32}, group_.rank() == 0 ? all : none, comm::ReduceOp::Max,
                  0);
    group_.broadcast(all, 0);
  };
  hops_.push_back({static_cast<double>(bytes), Meter("binomial", call)});
}

void NetworkMeter::add_sums(std::size_t bytes) {
  const auto call = [this, count = bytes / kElementBytes] {
    for (std::size_t begin = 0; begin < count; begin += kBounceElements) {
      comm::reduce_into(memory_.data() + begin, incoming_.data(), std::min(kBounceElements, count - begin),
                        comm::DType::Float32, comm::ReduceOp::Sum, false);
    }
  };
  sums_.push_back({static_cast<double>(bytes), Meter("", call)});
}

void NetworkMeter::measure() { measure(-1, HUGE_VAL); }

void NetworkMeter::measure(double above, double up_to) {
  for (Sized* each : by_size_) {
    if (each->bytes > above && each->bytes <= up_to) each->meter.measure(group_);
  }
}

comm::NetworkModel NetworkMeter::model() const {
  comm::NetworkModel model;
  model.startup = startup_.front().meter.seconds();
  for (const Sized& sum : sums_) model.sums.push_back({sum.bytes, sum.meter.seconds()});
  const auto sum_of = [&](double bytes) { return comm::seconds_on(model.sums, bytes); };
  const double rounds = log2_rounded_up(group_.world_size());
  /// What is left of a call for each of its messages one after the other.
  const auto add = [&](MeasuredCurve& curve, const Sized& sized, double calls, double messages, double reduced) {
    const double seconds = sized.meter.seconds() - calls * model.startup - reduced;
    curve.push_back({sized.bytes, std::max(kShortest, seconds / messages)});
  };
  for (const Sized& sized : messages_) add(model.measured, sized, 1, group_.world_size() - 1, 0);
  for (const Sized& sized : exchanges_) add(model.exchanges, sized, 1, rounds, 0);
  for (const Sized& sized : repeats_) add(model.repeats, sized, 1, 1, 0);
  for (const Sized& sized : hops_) add(model.hops, sized, 2, 2 * rounds, rounds * sum_of(sized.bytes));
  // A disturbance only ever adds time: a message takes no longer than a longer one.
  for (MeasuredCurve* curve : {&model.measured, &model.exchanges, &model.repeats, &model.hops, &model.sums}) {
    for (std::size_t i = curve->size(); i-- > 1;)
      (*curve)[i - 1].seconds = std::min((*curve)[i - 1].seconds, (*curve)[i].seconds);
  }
  // The formulas use the curves; these say the same in short.
  const auto& longest = model.measured.back();
  model.gamma = model.sums.back().seconds / model.sums.back().bytes;
  model.alpha = model.local_alpha = model.measured.front().seconds;
  model.beta = model.local_beta = std::max(0.0, longest.seconds - model.alpha) / longest.bytes;
  return model;
}

}  // namespace tutti::tools
