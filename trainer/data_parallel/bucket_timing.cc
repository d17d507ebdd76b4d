#include <tutti/trainer/data_parallel/bucket_timing.h>

namespace tutti::trainer {
namespace {

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void BucketTimer::reset(const std::vector<std::size_t>& nbytes) {
  timings_.clear();
  for (const std::size_t bytes : nbytes) timings_.push_back({.nbytes = bytes});
  started_.assign(nbytes.size(), 0);
  steps_ = 0;
}

void BucketTimer::backward_begins() { begin_ = Clock::now(); }

void BucketTimer::bucket_begins(std::size_t bucket) { started_[bucket] = seconds(Clock::now() - begin_); }

void BucketTimer::backward_ended() { end_of_backward_ = last_mark_ = Clock::now(); }

void BucketTimer::bucket_finished(std::size_t bucket) {
  const auto now = Clock::now();
  add(timings_[bucket].start_seconds, started_[bucket]);
  add(timings_[bucket].wait_seconds, seconds(now - last_mark_));
  last_mark_ = now;
}

void BucketTimer::step_ended() {
  last_wait_ = seconds(last_mark_ - end_of_backward_);
  ++steps_;
}

}  // namespace tutti::trainer
