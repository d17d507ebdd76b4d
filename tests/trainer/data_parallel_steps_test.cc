// What a step of DataParallel can be besides the plain one: several backward passes, none, unused parameters; and what
// travels along with it.

#include <gtest/gtest.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/tensor_comm.h>

#include <chrono>
#include <functional>
#include <string>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;
using tensor::Variable;
using test::run_ranks;

/// y = x w1 + x w2 + x w3, of which each forward uses those it is told to.
class ThreeWays : public nn::Module {
 public:
  ThreeWays() {
    for (int i = 0; i < 3; ++i) weights_.push_back(register_parameter("w" + std::to_string(i), Tensor::full({4}, 1)));
  }
  Variable forward(const Variable& input) override {
    Variable sum;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (!uses[i]) continue;
      const Variable part = mul(input, weights_[i]);
      sum = sum.defined() ? add(sum, part) : part;
    }
    return sum;
  }
  std::string describe() const override { return "ThreeWays"; }
  const Variable& weight(std::size_t i) const { return weights_[i]; }

  bool uses[3] = {true, true, true};

 private:
  std::vector<Variable> weights_;
};

Variable loss_of(DataParallel& parallel, double input) {
  return sum(parallel.forward(Variable(Tensor::full({4}, input))));
}

float gradient(const ThreeWays& model, std::size_t weight) { return model.weight(weight).grad().data<float>()[0]; }

constexpr BucketLimits kOneBucketEach{.first_bucket_bytes = 1, .bucket_cap_bytes = 1};

DataParallelOptions with_unused() {
  DataParallelOptions options;
  options.buckets = kOneBucketEach;
  options.find_unused = true;
  return options;
}

using StepBody = std::function<void(comm::ProcessGroup& group, ThreeWays& model, DataParallel& parallel)>;

void on_ranks(int ranks, const DataParallelOptions& options, const StepBody& body) {
  run_ranks(ranks, [&](comm::ProcessGroup& group) {
    const auto model = std::make_shared<ThreeWays>();
    DataParallel parallel(model, group, options);
    body(group, *model, parallel);
  });
}

TEST(DataParallelSteps, PassesWithoutSyncAddUpAndSendNothing) {
  on_ranks(3, {.buckets = kOneBucketEach}, [](comm::ProcessGroup& group, ThreeWays& model, DataParallel& parallel) {
    for (int step = 0; step < 2; ++step) {
      model.zero_grad();
      {
        const auto scope = parallel.no_sync();
        parallel.backward(loss_of(parallel, 1 + group.rank()), 1);  // 1 + 2 + 3
        parallel.backward(loss_of(parallel, 10), 1);                // 30
        EXPECT_EQ(gradient(model, 1), 11.0F + static_cast<float>(group.rank()));
      }
      parallel.backward(loss_of(parallel, 100), 0.5);  // 150
      parallel.finish();
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(gradient(model, i), 186.0F);
    }
  });
}

TEST(DataParallelSteps, ARankWithoutSamplesTakesPart) {
  on_ranks(4, {.buckets = kOneBucketEach}, [](comm::ProcessGroup& group, ThreeWays& model, DataParallel& parallel) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      if (group.rank() == step) {
        parallel.backward_nothing();
      } else {
        parallel.backward(loss_of(parallel, 1 << group.rank()), 1);
      }
      parallel.finish();
      EXPECT_EQ(gradient(model, 2), static_cast<float>(15 - (1 << step)));
    }
  });
}

TEST(DataParallelSteps, WhatOneRankLeavesUnusedIsZeroThere) {
  on_ranks(2, with_unused(), [](comm::ProcessGroup& group, ThreeWays& model, DataParallel& parallel) {
    for (int step = 0; step < 3; ++step) {
      model.uses[1] = group.rank() == 0;  // on rank 0 only
      model.uses[2] = step == 2;          // on no rank, then on all
      model.zero_grad();
      parallel.backward(loss_of(parallel, 3), 1);
      parallel.finish();
      EXPECT_EQ(gradient(model, 0), 6.0F);
      EXPECT_EQ(gradient(model, 1), 3.0F);
      EXPECT_EQ(model.weight(2).has_grad(), step == 2) << "an optimizer must leave alone what nobody used";
    }
  });
}

TEST(DataParallelSteps, UnusedInTheLastPassKeepsWhatEarlierPassesGave) {
  on_ranks(2, with_unused(), [](comm::ProcessGroup&, ThreeWays& model, DataParallel& parallel) {
    {
      const auto scope = parallel.no_sync();
      parallel.backward(loss_of(parallel, 5), 1);
    }
    model.uses[1] = false;
    parallel.backward(loss_of(parallel, 1), 1);
    parallel.finish();
    EXPECT_EQ(gradient(model, 0), 12.0F);
    EXPECT_EQ(gradient(model, 1), 10.0F);
  });
}

/// An exchange that says it cannot carry riders.
class Separate : public GradientExchange {
 public:
  Separate(comm::ProcessGroup& group, const ExchangePlan& plan) : inner_(make_all_reduce_exchange(group, plan)) {}
  void begin(std::size_t bucket, Tensor& gradients) override { inner_->begin(bucket, gradients); }
  void finish(std::size_t bucket, Tensor& gradients) override { inner_->finish(bucket, gradients); }
  void abandon() noexcept override { inner_->abandon(); }
  bool sums_elementwise() const override { return false; }
  std::string name() const override { return "separate"; }

 private:
  std::unique_ptr<GradientExchange> inner_;
};

void check_requests(comm::ProcessGroup& group, const DataParallelOptions& options) {
  const auto model = std::make_shared<ThreeWays>();
  DataParallel parallel(model, group, options);
  const int last = group.world_size() - 1;
  for (int step = 0; step < 4; ++step) {
    model->zero_grad();
    if (step == 1 && group.rank() == last) parallel.ask(Request::Checkpoint);
    if (step == 2) parallel.ask(Request::Stop);
    parallel.backward(loss_of(parallel, 1), 1);
    parallel.finish();
    EXPECT_EQ(parallel.asked(Request::Checkpoint), step == 1 ? 1 : 0) << "step " << step;
    EXPECT_EQ(parallel.asked(Request::Stop), step == 2 ? group.world_size() : 0) << "step " << step;
    EXPECT_EQ(gradient(*model, 0), static_cast<float>(group.world_size()));
  }
}

TEST(DataParallelSteps, AllRanksLearnWhatOneAsks) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [](comm::ProcessGroup& group) {
      check_requests(group, {});
      check_requests(group, with_unused());
      DataParallelOptions separate;
      separate.exchange = [](comm::ProcessGroup& in, const ExchangePlan& plan) {
        return std::make_unique<Separate>(in, plan);
      };
      check_requests(group, separate);
    });
  }
}

TEST(DataParallelSteps, TimingsTellBytesAndOrder) {
  on_ranks(2, {.buckets = kOneBucketEach}, [](comm::ProcessGroup&, ThreeWays& model, DataParallel& parallel) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      parallel.backward(loss_of(parallel, 1), 1);
      parallel.finish();
    }
    const auto& timings = parallel.bucket_timings();
    ASSERT_EQ(timings.size(), 3u);
    double waits = 0;
    for (std::size_t i = 0; i < timings.size(); ++i) {
      EXPECT_EQ(timings[i].nbytes, 16u);
      EXPECT_GT(timings[i].start_seconds, i == 0 ? 0 : timings[i - 1].start_seconds);
      waits += timings[i].wait_seconds;
    }
    EXPECT_GT(waits, 0);
    EXPECT_GT(parallel.last_wait_seconds(), 0);
  });
}

/// Takes its time in the last bucket's begin, as an exchange may.
class SlowToBegin : public GradientExchange {
 public:
  static constexpr std::chrono::milliseconds kTime{3};

  void begin(std::size_t bucket, Tensor& /*gradients*/) override {
    const auto end = std::chrono::steady_clock::now() + kTime;
    while (bucket == 2 && std::chrono::steady_clock::now() < end) continue;
  }
  void finish(std::size_t /*bucket*/, Tensor& /*gradients*/) override {}
  void abandon() noexcept override {}
  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "slow to begin"; }
};

TEST(DataParallelSteps, TimeInTheLastBeginIsChargedToTheLastBucket) {
  run_ranks(1, [](comm::ProcessGroup& group) {
    DataParallelOptions options;
    options.buckets = kOneBucketEach;
    options.exchange = [](comm::ProcessGroup&, const ExchangePlan&) { return std::make_unique<SlowToBegin>(); };
    DataParallel parallel(std::make_shared<ThreeWays>(), group, options);
    parallel.backward(loss_of(parallel, 1), 1);
    parallel.finish();
    const double least = std::chrono::duration<double>(SlowToBegin::kTime).count();
    EXPECT_GE(parallel.bucket_timings()[2].wait_seconds, least);
    EXPECT_GE(parallel.last_wait_seconds(), least);
  });
}

}  // namespace
}  // namespace tutti::trainer
