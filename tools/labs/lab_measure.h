// For the labs that measure: `latency` and `compare`. lab.h comes with it.
#pragma once

#include <tutti/tools/labs/lab.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tutti::labs {

/// A message of `bytes` bytes took `seconds`.
struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// A message of n bytes takes alpha + n beta.
struct Line {
  double alpha = 0;  // seconds
  double beta = 0;   // seconds per byte
};

namespace detail {

/// A function that gives one number: it lies in the call's first buffer afterwards.
inline void give(const Call& call, double value) { call.buffer<double>(0)[0] = value; }

/// What call_seconds() is given to time by the grader: a message of `bytes` goes from rank 0 to 1, from 1 to 2, and so
/// on to the last, so that the call takes a known time, on each rank another part of it. The first call's message is
/// eight times as long.
class Relay {
 public:
  Relay(Ranks& ranks, std::size_t bytes) : ranks_(ranks), bytes_(bytes) {}

  void operator()() {
    const std::size_t length = is_first_ ? 8 * bytes_ : bytes_;
    is_first_ = false;
    data_.resize(length);
    const std::span<unsigned char> data(data_);
    if (ranks_.rank() > 0) ranks_.recv(data, ranks_.rank() - 1, kTag);
    if (ranks_.rank() + 1 < ranks_.world_size()) ranks_.send(data, ranks_.rank() + 1, kTag);
  }

 private:
  static constexpr int kTag = 7'000'000;
  Ranks& ranks_;
  std::size_t bytes_;
  bool is_first_ = true;
  std::vector<unsigned char> data_;
};

}  // namespace detail
}  // namespace tutti::labs

/// double F(Ranks& ranks, std::size_t bytes, int repetitions);
#define TUTTI_LAB_MESSAGE_SECONDS(F) \
  TUTTI_LAB_ONCE_(message_seconds,   \
                  ::tutti::labs::detail::give(call, F(ranks, static_cast<std::size_t>(call.parameter), call.root)))

/// double F(Ranks& ranks, const std::function<void()>& call, int repetitions);
#define TUTTI_LAB_CALL_SECONDS(F)                                              \
  TUTTI_LAB_ONCE_(                                                             \
      call_seconds, ::tutti::labs::detail::Relay relay(ranks, call.parameter); \
      ::tutti::labs::detail::give(call, F(ranks, std::function<void()>([&relay] { relay(); }), call.root)))

/// Line F(std::span<const Sample> samples);
#define TUTTI_LAB_FIT(F)                                                                                \
  TUTTI_LAB_ONCE_(fit, const ::tutti::labs::Line line = F(call.buffer<const ::tutti::labs::Sample>(0)); \
                  call.buffer<double>(1)[0] = line.alpha; call.buffer<double>(1)[1] = line.beta)
