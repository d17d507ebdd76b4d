#include <tutti/trainer/data_parallel/bucket_timing.h>

namespace tutti::trainer {
namespace {

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void BucketTimer::reset(const std::vector<std::size_t>& nbytes) {
  timings_.clear();
  for (const std::size_t bytes : nbytes) timings_.push_back({.nbytes = bytes});
  started_.assign(nbytes.size(), 0);
  waited_.assign(nbytes.size(), 0);
  steps_ = 0;
}

void BucketTimer::backward_begins() {
  begin_ = Clock::now();
  in_backward_ = true;
}

void BucketTimer::backward_ended() {
  last_mark_ = Clock::now();
  in_backward_ = false;
}

void BucketTimer::bucket_begins(std::size_t bucket) { started_[bucket] = seconds(Clock::now() - begin_); }

void BucketTimer::bucket_begun(std::size_t bucket) {
  if (!in_backward_) charge(bucket);
}

void BucketTimer::bucket_finished(std::size_t bucket) { charge(bucket); }

/// The time since the last mark was this bucket's.
void BucketTimer::charge(std::size_t bucket) {
  const auto now = Clock::now();
  waited_[bucket] += seconds(now - last_mark_);
  last_mark_ = now;
}

void BucketTimer::step_ended() {
  last_wait_ = 0;
  for (std::size_t i = 0; i < timings_.size(); ++i) {
    last_wait_ += waited_[i];
    add(timings_[i].start_seconds, started_[i]);
    add(timings_[i].wait_seconds, waited_[i]);
    waited_[i] = 0;
  }
  ++steps_;
}

}  // namespace tutti::trainer
