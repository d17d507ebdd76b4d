// A model cut into stages on several ranks: the results of one rank, for any number of micro-batches.
#include <gtest/gtest.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/trainer/pipeline/pipeline.h>

#include <map>
#include <mutex>

namespace tutti::trainer {
namespace {

using tensor::Tensor;
using tensor::Variable;
using test::run_ranks;

constexpr std::int64_t kInputs = 12;
constexpr std::int64_t kClasses = 5;
constexpr int kBlocks = 4;

/// Blocks [begin, end) of the same four-block model, wherever they are built. `width` of the hidden layers.
std::shared_ptr<nn::Module> blocks(int begin, int end, std::int64_t width, double dropout = 0) {
  tensor::Mt19937 generator(7);
  std::vector<std::shared_ptr<nn::Module>> chosen;
  for (int block = 0; block < kBlocks; ++block) {
    auto layer =
        std::make_shared<nn::Linear>(block == 0 ? kInputs : width, block + 1 == kBlocks ? kClasses : width, generator);
    if (block < begin || block >= end) continue;
    chosen.push_back(std::move(layer));
    if (block + 1 < kBlocks) chosen.push_back(std::make_shared<nn::ReLU>());
    if (dropout > 0 && block == 1) chosen.push_back(std::make_shared<nn::Dropout>(dropout, 3));
  }
  return std::make_shared<nn::Sequential>(chosen);
}

int first_block(int stage, int stages) { return stage * kBlocks / stages; }

Tensor pictures(std::int64_t samples) {
  return numbered({samples, kInputs},
                  [](std::int64_t i) { return static_cast<float>((i * 37 + 11) % 29) / 29 - 0.5F; });
}

Tensor labels(std::int64_t samples) {
  return numbered<std::int64_t>({samples}, [](std::int64_t i) { return i * 3 % kClasses; });
}

Tensor keys(std::int64_t samples) {
  return numbered<std::int64_t>({samples}, [](std::int64_t i) { return 1000 + i; });
}

/// The work on samples [begin, begin + samples) of an endless set.
PipelineBatch batch_of(std::int64_t begin, std::int64_t samples) {
  const Tensor x = pictures(begin + samples).narrow(0, begin, samples);
  const Tensor y = labels(begin + samples).narrow(0, begin, samples);
  return {.samples = samples,
          .input = [x](std::int64_t first, std::int64_t count) { return Variable(x.narrow(0, first, count)); },
          .loss = [y](const Variable& output, std::int64_t first,
                      std::int64_t count) { return cross_entropy(output, y.narrow(0, first, count)); },
          .keys = keys(begin + samples).narrow(0, begin, samples)};
}

struct Result {
  double loss = 0;
  std::vector<Values> gradients;  // of the whole model, first layer first
};

struct Job {
  int stages = 2;
  int micro_batches = 4;
  std::int64_t samples = 10;
  std::int64_t width = 16;
  double dropout = 0;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  test::Net net = test::Net::Inproc;
};

Result in_a_pipeline(const Job& job) {
  std::map<int, std::vector<Values>> by_stage;
  Result result;
  std::mutex mutex;
  run_ranks(job.stages,
            [&](comm::ProcessGroup& group) {
              const int stage = group.rank();
              const auto model =
                  blocks(first_block(stage, job.stages), first_block(stage + 1, job.stages), job.width, job.dropout);
              Pipeline pipeline(model, group, {.micro_batches = job.micro_batches, .schedule = job.schedule});
              const auto loss = pipeline.run(batch_of(0, job.samples));
              EXPECT_EQ(loss.has_value(), pipeline.is_last());
              const std::lock_guard lock(mutex);
              if (loss) result.loss = *loss;
              for (const auto& [name, parameter] : model->named_parameters()) {
                by_stage[stage].push_back(values_of(parameter.grad()));
              }
            },
            {.net = job.net});
  for (const auto& [stage, gradients] : by_stage) {
    result.gradients.insert(result.gradients.end(), gradients.begin(), gradients.end());
  }
  return result;
}

/// The same on one rank, in the given number of parts.
Result on_one_rank(const Job& job, int parts) {
  const auto model = blocks(0, kBlocks, job.width, job.dropout);
  const PipelineBatch batch = batch_of(0, job.samples);
  Result result;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t first = job.samples * part / parts;
    const std::int64_t count = job.samples * (part + 1) / parts - first;
    const double share = static_cast<double>(count) / static_cast<double>(job.samples);
    const nn::SampleKeys scope(batch.keys.narrow(0, first, count));
    Variable loss = batch.loss(model->forward(batch.input(first, count)), first, count);
    result.loss += loss.data().item() * share;
    loss.backward(Tensor::full({}, share));
  }
  for (const auto& [name, parameter] : model->named_parameters()) {
    result.gradients.push_back(values_of(parameter.grad()));
  }
  return result;
}

void expect_one_ranks_result(const Job& job) {
  const std::string what = std::to_string(job.stages) + " stages, " + std::to_string(job.micro_batches) +
                           " micro-batches, " + std::string(name(job.schedule)) + ", " + test::name(job.net);
  const Result pipeline = in_a_pipeline(job);
  const int parts = static_cast<int>(std::min<std::int64_t>(job.micro_batches, job.samples));
  const Result same_parts = on_one_rank(job, parts);
  EXPECT_EQ(pipeline.gradients, same_parts.gradients) << what << ": not the bits of one rank";
  EXPECT_DOUBLE_EQ(pipeline.loss, same_parts.loss) << what;  // compilers may fuse the sum differently
  const Result whole = on_one_rank(job, 1);
  EXPECT_LT(largest_difference(pipeline.gradients, whole.gradients), 1e-6F) << what;
  EXPECT_NEAR(pipeline.loss, whole.loss, 1e-6) << what;
}

TEST(Pipeline, HasTheBitsOfOneRankThatRunsTheSameMicroBatches) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int micro_batches : {1, 2, 3, 7, 20}) {  // 20: more than there are samples
      for (const PipelineSchedule schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward}) {
        expect_one_ranks_result({.stages = stages, .micro_batches = micro_batches, .schedule = schedule});
      }
    }
  }
}

// Activations beyond what messages buffer: a send that waited for its receiver would lock 1F1B up.
TEST(Pipeline, LargeActivationsDoNotBlockEitherSchedule) {
  for (const test::Net net : {test::Net::Tcp, test::Net::Shm}) {
    for (const PipelineSchedule schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward}) {
      for (const int stages : {2, 4}) {
        expect_one_ranks_result({.stages = stages,
                                 .micro_batches = 6,
                                 .samples = 384,
                                 .width = 512,  // 128 KiB a micro-batch
                                 .schedule = schedule,
                                 .net = net});
      }
    }
  }
}

TEST(Pipeline, DropoutDrawsForTheSampleWhereverItsLayerIs) {
  for (const int stages : {1, 2, 4}) expect_one_ranks_result({.stages = stages, .dropout = 0.5});
}

TEST(Pipeline, EvaluationIsTheForwardAlone) {
  std::vector<std::int64_t> seen;
  run_ranks(3, [&](comm::ProcessGroup& group) {
    const int stage = group.rank();
    const auto model = blocks(first_block(stage, 3), first_block(stage + 1, 3), 16, 0.5);
    model->train(false);
    Pipeline pipeline(model, group, {.micro_batches = 3});
    PipelineBatch batch = batch_of(0, 10);
    batch.keys = {};  // dropout draws nothing
    const auto loss = batch.loss;
    batch.loss = [&](const Variable& output, std::int64_t first, std::int64_t count) {
      EXPECT_FALSE(output.requires_grad());
      seen.push_back(count);  // on the last stage only
      return loss(output, first, count);
    };
    const auto mean = pipeline.evaluate(batch);
    EXPECT_EQ(mean.has_value(), pipeline.is_last());
    if (mean) {
      EXPECT_NEAR(*mean, on_one_rank({.dropout = 0}, 1).loss, 1e-6);
    }
    EXPECT_FALSE(model->named_parameters()[0].second.has_grad());
  });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{3, 3, 4}));
}

TEST(Pipeline, NoSamplesAtAllIsAStepWithoutGradients) {
  run_ranks(2, [](comm::ProcessGroup& group) {
    const auto model = blocks(2 * group.rank(), 2 * group.rank() + 2, 8);
    Pipeline pipeline(model, group);
    const auto loss = pipeline.run(batch_of(0, 0));
    EXPECT_EQ(loss.value_or(0), 0);
    EXPECT_FALSE(model->named_parameters()[0].second.has_grad());
  });
}

constexpr int kSteps = 3;
constexpr std::int64_t kGlobalBatch = 11;

/// Trains `stages` x `replicas` ranks; replica r takes its part of each step's samples. Returns the parameters, which
/// all replicas must share bit for bit.
std::vector<Values> train(int stages, int replicas) {
  std::map<int, std::vector<Values>> by_stage;
  std::mutex mutex;
  run_ranks(stages * replicas, [&](comm::ProcessGroup& world) {
    const int stage = world.rank() % stages;
    const int replica = world.rank() / stages;
    const auto along = world.split(replica);                  // the stages of one pipeline
    const auto across = world.split(stages > 1 ? stage : 0);  // the same stage of all pipelines
    const auto model = blocks(first_block(stage, stages), first_block(stage + 1, stages), 16);
    DataParallel parallel(model, *across, {.buckets = {.first_bucket_bytes = 256, .bucket_cap_bytes = 256}});
    Pipeline pipeline(parallel, *along, {.micro_batches = 3});
    const auto optimizer = nn::make_sgd(all_parameters(*model), {.learning_rate = 0.5, .momentum = 0.9});
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const std::int64_t begin = kGlobalBatch * replica / replicas;
      const std::int64_t count = kGlobalBatch * (replica + 1) / replicas - begin;
      PipelineBatch batch = batch_of(step * kGlobalBatch + begin, count);
      batch.share = static_cast<double>(count) / kGlobalBatch;
      optimizer->zero_grad();
      pipeline.run(batch);
      parallel.finish();
      optimizer->step();
    }
    const std::vector<Values> mine = values_of(*model);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(by_stage.try_emplace(stage, mine).first->second, mine) << "replicas of stage " << stage << " differ";
  });
  std::vector<Values> all;
  for (const auto& [stage, parameters] : by_stage) all.insert(all.end(), parameters.begin(), parameters.end());
  return all;
}

TEST(Pipeline, DataParallelOverTwoPipelinesEqualsOneRank) {
  const std::vector<Values> one = train(1, 1);
  ASSERT_EQ(one.size(), 2u * kBlocks);
  EXPECT_LT(largest_difference(train(2, 1), one), 1e-6F);
  EXPECT_LT(largest_difference(train(2, 2), one), 1e-5F);
  EXPECT_LT(largest_difference(train(3, 2), one), 1e-5F);
}

void expect_everywhere(const std::vector<std::string>& texts, const std::string& part) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    EXPECT_NE(texts[rank].find(part), std::string::npos) << "rank " << rank << ": " << texts[rank];
  }
}

/// Fails in the third micro-batch.
class Broken : public nn::Module {
 public:
  explicit Broken(std::shared_ptr<nn::Module> inner) : inner_(register_module("inner", std::move(inner))) {}
  Variable forward(const Variable& input) override {
    if (++calls_ == 3) throw std::runtime_error("the third micro-batch was too much");
    return inner_->forward(input);
  }
  std::string describe() const override { return "Broken()"; }

 private:
  std::shared_ptr<nn::Module> inner_;
  int calls_ = 0;
};

TEST(Pipeline, AStageThatFailsIsNamedOnAllOthers) {
  for (const int broken : {0, 1, 2}) {
    auto texts = errors_of(3, [&](comm::ProcessGroup& group) {
      const int stage = group.rank();
      auto model = blocks(first_block(stage, 3), first_block(stage + 1, 3), 16);
      if (stage == broken) model = std::make_shared<Broken>(model);
      Pipeline pipeline(model, group);
      pipeline.run(batch_of(0, 12));
    });
    const auto culprit = static_cast<std::size_t>(broken);
    EXPECT_EQ(texts[culprit], "the third micro-batch was too much");
    texts.erase(texts.begin() + broken);
    expect_everywhere(texts,
                      "stage " + std::to_string(broken) + " of the pipeline: the third micro-batch was too much");
  }
}

TEST(Pipeline, StagesWithOtherOptionsAreNamed) {
  expect_everywhere(errors_of(3,
                              [](comm::ProcessGroup& group) {
                                const Pipeline pipeline(blocks(0, 1, 8), group,
                                                        {.micro_batches = group.rank() == 1 ? 8 : 4});
                              }),
                    "stage 0 4 micro-batches in the order 1f1b, stage 1 8 micro-batches in the order 1f1b");
  test::expect_parts(errors_of(1,
                               [](comm::ProcessGroup& group) {
                                 const Pipeline pipeline(blocks(0, 1, 8), group, {.micro_batches = 0});
                               })[0],
                     {"micro_batches is 0, expected at least 1"});
}

TEST(Pipeline, StagesWithOtherNumbersOfSamplesAreNamed) {
  expect_everywhere(errors_of(2,
                              [](comm::ProcessGroup& group) {
                                Pipeline pipeline(blocks(2 * group.rank(), 2 * group.rank() + 2, 8), group);
                                pipeline.run(batch_of(0, group.rank() == 0 ? 8 : 9));
                              }),
                    "micro-batch 3 arrived from stage 0 with shape (2, 8), this stage expects 3 samples");
}

/// Ignores what it is given.
class Deaf : public nn::Module {
 public:
  Deaf() : weight_(register_parameter("weight", Tensor::full({4, kClasses}, 1))) {}
  Variable forward(const Variable&) override { return weight_; }
  std::string describe() const override { return "Deaf()"; }

 private:
  Variable weight_;
};

TEST(Pipeline, AStageThatIgnoresItsInputIsNamed) {
  expect_everywhere(errors_of(2,
                              [](comm::ProcessGroup& group) {
                                std::shared_ptr<nn::Module> model = std::make_shared<Deaf>();
                                if (group.rank() == 0) model = blocks(0, 2, 8);
                                Pipeline pipeline(model, group, {.micro_batches = 1});
                                pipeline.run(batch_of(0, 4));
                              }),
                    "the output of this stage (Deaf()) does not depend on its input");
}

TEST(Courier, AVariableGoesAndItsGradientComesBack) {
  run_ranks(2, [](comm::ProcessGroup& group) {
    Courier courier(group);
    const int other = 1 - group.rank();
    // Both ranks do the same at the same time, so that Variables and gradients cross each other.
    Variable x(Tensor::from<double>({3}, {1, 2, 3.0 + group.rank()}), true);
    Variable sent = courier.send(mul(x, x), other, 5);
    const Variable got = courier.receive(other, 5);
    EXPECT_EQ(got.data().data<double>()[2], (3.0 + other) * (3.0 + other));
    Variable loss = sum(scale(got, 10));
    loss.backward();
    sent.backward();
    courier.flush();
    EXPECT_EQ(x.grad().data<double>()[0], 20);
    EXPECT_EQ(x.grad().data<double>()[1], 40);
    EXPECT_EQ(courier.gradients_posted(), 1);
  });
}

TEST(Courier, AGradientFromAfarIsAddedToTheOneFromHere) {
  run_ranks(2, [](comm::ProcessGroup& group) {
    Courier courier(group);
    if (group.rank() == 1) {
      Variable loss = sum(scale(courier.receive(0), 3));
      loss.backward();
      courier.flush();
      return;
    }
    Variable x(Tensor::full({2, 2}, 1), true);
    const Variable h = scale(x, 1);
    Variable total = add(courier.send(h, 1), sum(scale(h, 4)));
    total.backward();
    courier.flush();
    EXPECT_EQ(x.grad().data<float>()[3], 7);
  });
}

TEST(Courier, WhatNeedsNoGradientComesAsPlainData) {
  run_ranks(2, [](comm::ProcessGroup& group) {
    Courier courier(group);
    if (group.rank() == 0) {
      EXPECT_FALSE(courier.send(Variable(Tensor::full({}, 4, tensor::DType::Int64)), 1).requires_grad());
      courier.flush();
      return;
    }
    const Variable got = courier.receive(0);
    EXPECT_FALSE(got.requires_grad());
    EXPECT_EQ(got.data().dtype(), tensor::DType::Int64);
    EXPECT_EQ(got.data().item(), 4);
  });
}

TEST(Courier, AMessageThatIsNoVariableIsRefused) {
  const auto texts = errors_of(2, [](comm::ProcessGroup& group) {
    if (group.rank() == 0) {
      const std::vector<std::int64_t> nonsense(9, 77);
      group.send(std::span<const std::int64_t>(nonsense), 1);
      return;
    }
    Courier courier(group);
    (void)courier.receive(0);
  });
  test::expect_parts(texts[1], {"rank 0 sent a message that announces no tensor (type number 77, rank 77)"});
}

}  // namespace
}  // namespace tutti::trainer
