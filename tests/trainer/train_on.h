// Whole trainings of small data with ranks as threads, for tests of what they give.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/train_loop.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::trainer {

struct Trained {
  std::vector<RunReport> reports;   // by rank
  std::vector<std::string> errors;  // by rank, where they are kept; "" for none
  std::string printed;              // by rank 0, which alone prints
};

struct TrainOn {
  test::Net net = test::Net::Inproc;
  /// Called on each rank before it trains.
  std::function<void(int rank, TrainOptions& options, TrainRequests& requests)> prepare{};
  bool keep_errors = false;  // else what run_ranks() throws is thrown
};

inline Trained train_on(int ranks, const TrainOptions& options, const TrainOn& how = {}) {
  Trained trained;
  trained.reports.resize(static_cast<std::size_t>(ranks));
  trained.errors.resize(static_cast<std::size_t>(ranks));
  const auto train_rank = [&](comm::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    TrainOptions own = options;
    TrainRequests requests;
    if (how.prepare) how.prepare(group.rank(), own, requests);
    std::ostringstream out;
    const auto run = [&] { trained.reports[rank] = train(own, group, 1, {.stream = out, .requests = &requests}); };
    if (how.keep_errors) {
      trained.errors[rank] = error_of(run);
    } else {
      run();
    }
    if (rank == 0) {
      trained.printed = out.str();
    } else {
      EXPECT_EQ(out.str(), "");
    }
  };
  test::run_ranks(ranks, train_rank, {.net = how.net});
  return trained;
}

/// A folder with data/, and options for a training on it.
class SmallTraining : public testing::Test {
 protected:
  SmallTraining(std::int64_t train, std::int64_t test, int epochs, std::int64_t batch_size) {
    write_small_mnist(folder_ / "data", train, test);
    options_.data = folder_ / "data";
    options_.epochs = epochs;
    options_.batch_size = batch_size;
  }

  TemporaryFolder folder_;
  TrainOptions options_;
};

}  // namespace tutti::trainer
