// One call of each collective, sync or async, on elements of any type, with exact results: what conformance_test.cc
// loops over. Blocks start one element off their alignment to a line and have an element before and behind that nobody
// may touch.
#pragma once

#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

inline constexpr std::array kRooted = {OpKind::Broadcast, OpKind::Reduce,  OpKind::Gather,
                                       OpKind::GatherV,   OpKind::Scatter, OpKind::ScatterV};
inline constexpr std::array kOfAll = {OpKind::AllReduce,     OpKind::AllGather,      OpKind::AllGatherV,
                                      OpKind::ReduceScatter, OpKind::ReduceScatterV, OpKind::AllToAll,
                                      OpKind::AllToAllV,     OpKind::Barrier};

/// The arguments of one call.
struct Shape {
  DType dtype = DType::Float32;
  std::size_t count = 0;
  int root = 0;
  ReduceOp op = ReduceOp::Sum;
  bool async = false;
  int salt = 0;  // another one, other elements
};

/// Elements of a type, each a small integer, or one divided by `divisor`, as the type's arithmetic gives it.
class Block {
 public:
  Block(DType dtype, std::size_t count)
      : dtype_(dtype), count_(count), memory_((count + 2) * size_of(dtype), std::byte{1}) {
    std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(size_of(dtype)), count * size_of(dtype), std::byte{0});
  }

  Buffer out() { return {at(0), count_, dtype_}; }
  Buffer part(std::size_t first, std::size_t count) { return {at(first), count, dtype_}; }
  ConstBuffer in() const { return {at(0), count_, dtype_}; }
  bool operator==(const Block& other) const = default;

  void put(std::size_t index, std::int64_t number, int divisor) {
    switch (dtype_) {
      case DType::Float32:
        return write(index, static_cast<float>(number) / static_cast<float>(divisor));
      case DType::Float64:
        return write(index, static_cast<double>(number) / divisor);
      case DType::Float16:
        return write(index, Half(static_cast<float>(number) / static_cast<float>(divisor)));
      case DType::BFloat16:
        return write(index, BFloat16(static_cast<float>(number) / static_cast<float>(divisor)));
      case DType::Bool:
        return write(index, number != 0);
      default:  // two's complement, little-endian: as far as the type goes
        std::memcpy(at(index), &number, size_of(dtype_));
    }
  }
  void copy(std::size_t index, const Block& from, std::size_t first, std::size_t count) {
    if (count > 0) std::memcpy(at(index), from.at(first), count * size_of(dtype_));
  }
  std::size_t count() const { return count_; }

 private:
  std::byte* at(std::size_t index) { return memory_.data() + (index + 1) * size_of(dtype_); }
  const std::byte* at(std::size_t index) const { return memory_.data() + (index + 1) * size_of(dtype_); }
  template <typename T>
  void write(std::size_t index, T value) {
    std::memcpy(at(index), &value, sizeof value);
  }

  DType dtype_;
  std::size_t count_;
  std::vector<std::byte> memory_;  // with an element before and behind, of bytes 1
};

/// What is reduced is so small that it is exact in any order.
class ExactCall {
 public:
  ExactCall(ProcessGroup& group, OpKind kind, const Shape& shape) : group_(group), kind_(kind), shape_(shape) {
    for (int r = 0; r < ranks(); ++r) counts_.push_back(r % 3 == 1 ? 0 : shape.count + static_cast<std::size_t>(r));
  }

  void run() {
    switch (kind_) {
      case OpKind::Broadcast:
        return broadcast();
      case OpKind::Reduce:
        return reduce();
      case OpKind::AllReduce:
        return all_reduce();
      case OpKind::Gather:
        return gather(equal_counts());
      case OpKind::GatherV:
        return gather(counts_);
      case OpKind::AllGather:
        return all_gather(equal_counts());
      case OpKind::AllGatherV:
        return all_gather(counts_);
      case OpKind::Scatter:
        return scatter(equal_counts());
      case OpKind::ScatterV:
        return scatter(counts_);
      case OpKind::ReduceScatter:
        return reduce_scatter(equal_counts());
      case OpKind::ReduceScatterV:
        return reduce_scatter(counts_);
      case OpKind::AllToAll:
        return all_to_all(false);
      case OpKind::AllToAllV:
        return all_to_all(true);
      default:
        return call({.op = kind_});
    }
  }

  /// all_gather or reduce_scatter with this rank's block where it is among those of all ranks.
  void run_in_place() {
    const Counts counts = equal_counts();
    const std::size_t first = before(counts, self()), total = before(counts, ranks());
    const bool gathers = kind_ == OpKind::AllGather;
    Block data = gathers ? block(total) : from(self(), total);
    Block wanted = gathers ? joined(counts) : data;
    if (gathers) data.copy(first, wanted, first, shape_.count);
    if (!gathers) wanted.copy(first, all_reduced(shape_.count, first), 0, shape_.count);
    const Buffer own = data.part(first, shape_.count), all = data.out();
    call({.op = kind_, .input = gathers ? own : all, .output = gathers ? all : own, .reduction = shape_.op});
    expect("result in place", data, wanted);
  }

 private:
  using Counts = std::vector<std::size_t>;

  int ranks() const { return group_.world_size(); }
  int self() const { return group_.rank(); }
  bool is_root() const { return self() == shape_.root; }
  Counts equal_counts() const { return Counts(static_cast<std::size_t>(ranks()), shape_.count); }
  static std::size_t before(const Counts& counts, int rank) {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += counts[static_cast<std::size_t>(r)];
    return sum;
  }
  std::size_t own(const Counts& counts) const { return counts[static_cast<std::size_t>(self())]; }

  /// What `rank` contributes as element i: of a period that divides no power of two, with a break in each.
  std::int64_t number(int rank, std::size_t i) const {
    const int mixed = (rank * 7 + static_cast<int>(i % kPeriod) * 3 + shape_.salt * 5) % 11;
    if (shape_.dtype == DType::Bool) return mixed % 3 == 0;
    return shape_.op == ReduceOp::Prod ? mixed % 2 + 1 : mixed + 1;
  }
  std::int64_t reduced(std::size_t i) const {
    std::int64_t result = number(0, i);
    for (int rank = 1; rank < ranks(); ++rank) result = combined(result, number(rank, i));
    return result;
  }
  std::int64_t combined(std::int64_t a, std::int64_t b) const {
    switch (shape_.op) {
      case ReduceOp::Prod:
        return a * b;
      case ReduceOp::Min:
        return std::min(a, b);
      case ReduceOp::Max:
        return std::max(a, b);
      case ReduceOp::BAnd:
        return a & b;
      case ReduceOp::BOr:
        return a | b;
      case ReduceOp::BXor:
        return a ^ b;
      default:
        return a + b;
    }
  }

  static constexpr std::size_t kPeriod = 251;

  Block block(std::size_t count) const { return {shape_.dtype, count}; }
  template <typename Number>
  Block filled(std::size_t count, std::size_t first, int divisor, Number number_of) const {
    Block values = block(count);
    for (std::size_t i = 0; i < std::min(count, kPeriod); ++i) values.put(i, number_of(first + i), divisor);
    for (std::size_t i = kPeriod; i < count; i += kPeriod) values.copy(i, values, 0, std::min(kPeriod, count - i));
    return values;
  }
  Block from(int rank, std::size_t count) const {
    return filled(count, 0, 1, [&](std::size_t i) { return number(rank, i); });
  }
  Block all_reduced(std::size_t count, std::size_t first = 0) const {
    const int divisor = shape_.op == ReduceOp::Avg ? ranks() : 1;
    return filled(count, first, divisor, [&](std::size_t i) { return reduced(i); });
  }
  /// part(r) of each rank r, one behind the other.
  template <typename Part>
  Block concatenated(Part part) const {
    std::vector<Block> parts;
    std::size_t total = 0;
    for (int rank = 0; rank < ranks(); ++rank) total += parts.emplace_back(part(rank)).count();
    Block whole = block(total);
    std::size_t at = 0;
    for (const Block& some : parts) {
      whole.copy(at, some, 0, some.count());
      at += some.count();
    }
    return whole;
  }
  Block joined(const Counts& counts) const {
    return concatenated([&](int rank) { return from(rank, counts[static_cast<std::size_t>(rank)]); });
  }

  void call(const Collective& collective) const {
    if (!shape_.async) return group_.run(collective);
    group_.run_async(collective).wait();
  }
  /// As bytes: what is equal to this on all ranks is equal among them.
  void expect(const char* what, const Block& got, const Block& wanted) const {
    EXPECT_TRUE(got == wanted) << what << " of " << name(shape_.op) << " " << name(kind_) << " of " << shape_.count
                               << " " << name(shape_.dtype) << ", root " << shape_.root << ", rank " << self() << "/"
                               << ranks() << (shape_.async ? ", async" : "");
  }

  void broadcast() {
    Block data = is_root() ? from(self(), shape_.count) : block(shape_.count);
    call({.op = kind_, .output = data.out(), .root = shape_.root});
    expect("result", data, from(shape_.root, shape_.count));
  }

  void reduce() {
    const Block input = from(self(), shape_.count);
    Block output = block(is_root() ? shape_.count : 0);
    call({.op = kind_, .input = input.in(), .output = output.out(), .root = shape_.root, .reduction = shape_.op});
    expect("result", output, all_reduced(is_root() ? shape_.count : 0));
    expect("input", input, from(self(), shape_.count));
  }

  void all_reduce() {
    Block data = from(self(), shape_.count);
    call({.op = kind_, .output = data.out(), .reduction = shape_.op});
    expect("result", data, all_reduced(shape_.count));
  }

  void gather(const Counts& counts) {
    const Block input = from(self(), own(counts));
    Block output = block(is_root() ? before(counts, ranks()) : 0);
    call({.op = kind_, .input = input.in(), .output = output.out(), .root = shape_.root, .counts = given(counts)});
    expect("result", output, is_root() ? joined(counts) : block(0));
    expect("input", input, from(self(), own(counts)));
  }

  void all_gather(const Counts& counts) {
    const Block input = from(self(), own(counts));
    Block output = block(before(counts, ranks()));
    call({.op = kind_, .input = input.in(), .output = output.out(), .counts = given(counts)});
    expect("result", output, joined(counts));
    expect("input", input, from(self(), own(counts)));
  }

  void scatter(const Counts& counts) {
    const Block input = is_root() ? joined(counts) : block(0);
    Block output = block(own(counts));
    call({.op = kind_, .input = input.in(), .output = output.out(), .root = shape_.root, .counts = given(counts)});
    expect("result", output, from(self(), own(counts)));
    expect("input", input, is_root() ? joined(counts) : block(0));
  }

  void reduce_scatter(const Counts& counts) {
    const Block input = from(self(), before(counts, ranks()));
    Block output = block(own(counts));
    call({.op = kind_, .input = input.in(), .output = output.out(), .reduction = shape_.op, .counts = given(counts)});
    expect("result", output, all_reduced(own(counts), before(counts, self())));
    expect("input", input, from(self(), before(counts, ranks())));
  }

  void all_to_all(bool v) {
    Counts send, recv;
    for (int peer = 0; peer < ranks(); ++peer) {
      send.push_back(v ? between(self(), peer) : shape_.count);
      recv.push_back(v ? between(peer, self()) : shape_.count);
    }
    const auto sent = [&] {
      return concatenated([&](int peer) { return from(self() + 3 * peer, send[static_cast<std::size_t>(peer)]); });
    };
    const Block input = sent();
    Block output = block(before(recv, ranks()));
    call({.op = kind_,
          .input = input.in(),
          .output = output.out(),
          .counts = v ? std::span<const std::size_t>(send) : std::span<const std::size_t>(),
          .recv_counts = v ? std::span<const std::size_t>(recv) : std::span<const std::size_t>()});
    expect("result", output,
           concatenated([&](int peer) { return from(peer + 3 * self(), recv[static_cast<std::size_t>(peer)]); }));
    expect("input", input, sent());
  }
  /// To the v-forms only.
  std::span<const std::size_t> given(const Counts& counts) const {
    return has_counts(kind_) ? std::span<const std::size_t>(counts) : std::span<const std::size_t>();
  }
  std::size_t between(int from, int to) const {
    const int mixed = from + 2 * to + static_cast<int>(shape_.count % 5);
    return mixed % 4 == 0 ? 0 : shape_.count + static_cast<std::size_t>(mixed % 3);
  }
  ProcessGroup& group_;
  const OpKind kind_;
  const Shape shape_;
  Counts counts_;
};

}  // namespace tutti::comm
