// What the exchange of each bucket cost, and how much of it hid behind backward.
//
// Times are this rank's, averaged over the steps. A step reads the clock three times for each bucket and twice besides.
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::trainer {

struct BucketTiming {
  std::size_t nbytes = 0;
  double start_seconds = 0;  // from the beginning of backward to the moment the bucket was complete and left
  double wait_seconds = 0;   // what the training thread spent on it after backward; 0 if it was there by then

  static void fields(auto& self, const auto& use) {
    use("bytes", self.nbytes);
    use("start_seconds", self.start_seconds);
    use("wait_seconds", self.wait_seconds);
  }
};

class BucketTimer {
 public:
  void reset(const std::vector<std::size_t>& nbytes);

  void backward_begins();
  void bucket_begins(std::size_t bucket);
  void bucket_begun(std::size_t bucket);
  void backward_ended();
  void bucket_finished(std::size_t bucket);
  void step_ended();

  const std::vector<BucketTiming>& timings() const { return timings_; }
  double last_wait_seconds() const { return last_wait_; }

 private:
  using Clock = std::chrono::steady_clock;
  void charge(std::size_t bucket);
  void add(double& mean, double value) const { mean += (value - mean) / static_cast<double>(steps_ + 1); }

  std::vector<BucketTiming> timings_;
  std::vector<double> started_;  // of the running step
  std::vector<double> waited_;   // of the running step
  Clock::time_point begin_{};
  Clock::time_point last_mark_{};  // what came before it has been charged to a bucket, or was backward
  bool in_backward_ = false;
  double last_wait_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace tutti::trainer
