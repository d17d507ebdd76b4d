// A whole training with ranks as threads, for tests of what it gives.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/trainer/train_loop.h>

#include <sstream>
#include <string>
#include <vector>

namespace tutti::trainer {

struct Trained {
  std::vector<RunReport> reports;  // by rank
  std::string printed;             // by rank 0, which alone prints
};

/// `threads` are each rank's. Throws what run_ranks() throws.
inline Trained train_on(int ranks, const TrainOptions& options, int threads = 1, test::Net net = test::Net::Inproc) {
  Trained trained;
  trained.reports.resize(static_cast<std::size_t>(ranks));
  test::RunRanksOptions over;
  over.net = net;
  test::run_ranks(
      ranks,
      [&](comm::ProcessGroup& group) {
        std::ostringstream out;
        trained.reports[static_cast<std::size_t>(group.rank())] = train(options, group, threads, {.stream = out});
        if (group.rank() == 0) {
          trained.printed = out.str();
        } else {
          EXPECT_EQ(out.str(), "");
        }
      },
      over);
  return trained;
}

}  // namespace tutti::trainer
