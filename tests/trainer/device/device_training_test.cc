// Whole trainings on the emulated GPU, by threads and by processes, beside the same ones on the CPU.

#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/device.h>
#include <tutti/tensor/products.h>
#include <tutti/tensor/random.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/trainer/elastic_job.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/data/digits.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/shared_batch.h>
#include <tutti/trainer/device/device_exchange.h>
#include <tutti/trainer/device/device_feed.h>
#include <tutti/trainer/device/step_graphs.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/run_inputs.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tutti::trainer {
namespace {

constexpr tensor::Device kGpu{tensor::Device::Kind::Cuda, 0};

class DeviceTraining : public SmallTraining {
 protected:
  DeviceTraining() : SmallTraining(96, 50, 1, 16) {}

  TrainOptions small_run(const std::string& model, const std::string& device) const {
    TrainOptions options = options_;
    options.model = model;
    options.device = device;
    return options;
  }
};

RunReport report_of(const TrainOptions& options, int ranks) { return train_on(ranks, options).reports[0]; }

TEST_F(DeviceTraining, GivesTheCpusCurve) {
  for (const std::string model : {"mlp", "cnn"}) {
    if (model == "cnn") write_small_mnist(folder_ / "data", 32, 16);  // two steps: an emulated convolution takes long
    const RunReport cpu = report_of(small_run(model, "cpu"), 1);
    const RunReport gpu = report_of(small_run(model, "cuda:0"), 1);
    EXPECT_NEAR(gpu.epochs[0].train_loss, cpu.epochs[0].train_loss, 1e-3 * cpu.epochs[0].train_loss) << model;
    EXPECT_NEAR(*gpu.epochs[0].test_loss, *cpu.epochs[0].test_loss, 1e-2 * *cpu.epochs[0].test_loss) << model;
  }
}

TEST_F(DeviceTraining, TwoRanksOnOneCardGiveTheCurveOfOne) {
  TrainOptions one = small_run("mlp", "cuda:0");
  one.batch_size = 32;
  const RunReport alone = report_of(one, 1);
  const RunReport together = report_of(small_run("mlp", "cuda:0"), 2);
  EXPECT_NEAR(together.epochs[0].train_loss, alone.epochs[0].train_loss, 1e-4 * alone.epochs[0].train_loss);
  EXPECT_NEAR(*together.epochs[0].test_loss, *alone.epochs[0].test_loss, 1e-3 * *alone.epochs[0].test_loss);
}

TEST_F(DeviceTraining, CommHooksGiveTheCpusCurve) {
  for (const std::string hook : {"bf16", "fp16", "topk"}) {
    TrainOptions cpu = small_run("mlp", "cpu"), gpu = small_run("mlp", "cuda:0");
    cpu.comm_hook = gpu.comm_hook = hook;
    const double loss = report_of(cpu, 2).epochs[0].train_loss;
    EXPECT_NEAR(report_of(gpu, 2).epochs[0].train_loss, loss, 1e-3 * loss) << hook;
    EXPECT_NE(report_of(small_run("mlp", "cuda:0"), 2).epochs[0].train_loss, loss) << hook;
  }
}

// Its checkpoints are resumed with sharding and without.
TEST_F(DeviceTraining, AShardedOptimizerEndsWithTheBitsOfAWholeOne) {
  TrainOptions options = small_run("mlp", "cuda:0");
  options.epochs = 3;
  options.optimizer = "adam";
  options.buckets = {.first_bucket_bytes = 400, .bucket_cap_bytes = 20000};
  const std::string whole = report_of(options, 2).parameter_sha256;
  options.checkpoint_dir = folder_ / "checkpoints";
  for (options.epochs = 1; options.epochs <= 3; ++options.epochs) {
    options.resume = options.epochs > 1;
    options.shard_optimizer = options.epochs < 3;
    EXPECT_EQ(report_of(options, 2).parameter_sha256 == whole, options.epochs == 3) << options.epochs;
  }
}

/// That steps are recorded at all is the next test's.
TEST_F(DeviceTraining, RecordedStepsGiveTheSameBits) {
  for (const int ranks : {1, 2}) {
    const RunReport recorded = report_of(small_run("mlp", "cuda:0"), ranks);
    ::setenv("TUTTI_CUDA_GRAPHS", "0", 1);
    const RunReport plain = report_of(small_run("mlp", "cuda:0"), ranks);
    ::unsetenv("TUTTI_CUDA_GRAPHS");
    EXPECT_EQ(recorded.parameter_sha256, plain.parameter_sha256) << ranks << " ranks";
    EXPECT_EQ(recorded.epochs[0].train_loss, plain.epochs[0].train_loss);
  }
}

std::vector<Values> gradients_and_buffers(const nn::Module& model) {
  std::vector<Values> result;
  for (const auto& [name, parameter] : model.named_parameters()) result.push_back(values_of(parameter.grad()));
  for (const auto& [name, buffer] : model.named_buffers()) result.push_back(values_of(buffer));
  return result;
}

/// One step as it is; the loss.
double plain_step(DataParallel& parallel, const Batch& batch) {
  const nn::SampleKeys keys(batch.keys);
  const tensor::Variable output = parallel.forward(tensor::Variable(batch.x));
  const tensor::Variable loss = tensor::cross_entropy(output, batch.y, tensor::Reduction::Sum, 0);
  parallel.backward(loss, 1);
  return loss.data().item();
}

/// Five steps of batch norm, `layer`, dropout and a linear layer, which are those of the same without graphs; whether
/// each ran as a graph.
std::vector<bool> recorded_steps(comm::ProcessGroup& group, const std::shared_ptr<nn::Module>& layer) {
  const auto make_model = [&] {
    tensor::Mt19937 random(3);
    auto model = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::BatchNorm2d>(2), layer, std::make_shared<nn::Flatten>(),
        std::make_shared<nn::Dropout>(0.5, 1), std::make_shared<nn::Linear>(6, 3, random)});
    model->to(kGpu);
    return model;
  };
  const auto model = make_model(), plain = make_model();
  DataParallel parallel(model, group), as_it_is(plain, group);
  StepGraphs graphs(parallel, Objective::Classify, 0);
  Batch batch;
  batch.count = 4;
  batch.y = tensor::Tensor::zeros({4}, tensor::DType::Int64).to(kGpu);
  std::vector<bool> ran;
  for (int step = 0; step < 5; ++step) {
    SCOPED_TRACE(step);
    batch.keys = numbered<std::int64_t>({4}, [&](std::int64_t row) { return step + row * 1000; });
    if (step % 2 == 0) batch.keys = batch.keys.to(kGpu);  // as DeviceFeed gives them
    model->zero_grad(), plain->zero_grad();
    batch.x = numbered({4, 1, 3, 2}, [&](std::int64_t i) { return std::sin(group.rank() + step * 24 + i); }).to(kGpu);
    const auto loss = graphs.run(batch, 1);
    ran.push_back(loss.has_value());
    EXPECT_EQ(loss ? loss->item() : plain_step(parallel, batch), plain_step(as_it_is, batch));
    parallel.finish(), as_it_is.finish();
    EXPECT_EQ(gradients_and_buffers(*model), gradients_and_buffers(*plain));
  }
  return ran;
}

TEST_F(DeviceTraining, StepsOfAShapeThatComesAgainAreRecorded) {
  test::run_ranks(1, [](comm::ProcessGroup& group) {
    EXPECT_EQ(recorded_steps(group, std::make_shared<nn::StochasticDepth>(0.5, 0)),
              (std::vector<bool>{false, false, true, true, true}));
  });
}

/// Running statistics and rank 0's first output of batch norm over ranks with so many samples each, after one step.
std::vector<Values> batch_norm_over(const std::vector<std::int64_t>& samples, tensor::Device device) {
  std::vector<Values> found;
  test::run_ranks(static_cast<int>(samples.size()), [&](comm::ProcessGroup& group) {
    nn::BatchNorm2d layer(3);
    layer.to(device);
    synchronise_batch_norm(layer, group);
    const auto mine = samples.begin() + group.rank();
    const std::int64_t before = std::accumulate(samples.begin(), mine, std::int64_t{0});
    const auto x = numbered({*mine, 2, 2, 3}, [&](std::int64_t i) { return std::sin(before * 12 + i); });
    const tensor::Variable input(x.to(device), true);
    const tensor::Variable output = layer.forward(input);
    sum(mul(output, mul(output, output))).backward();
    if (group.rank() > 0) return;
    found = {values_of(output.data().narrow(0, 0, 1)), values_of(input.grad().narrow(0, 0, 1))};
    for (const auto& [name, buffer] : layer.named_buffers()) found.push_back(values_of(buffer));
  });
  return found;
}

TEST_F(DeviceTraining, BatchNormOfAllRanksIsThatOfOneOnTheCpu) {
  const std::vector<Values> one = batch_norm_over({5}, {});
  for (const auto& samples : std::vector<std::vector<std::int64_t>>{{5}, {3, 2}, {2, 0, 3}}) {
    EXPECT_LT(largest_difference(batch_norm_over(samples, kGpu), one), 1e-4) << samples.size() << " ranks";
  }
  TrainOptions options = small_run("mlp", "cuda:0");
  options.tf32 = true;
  test::expect_parts(train_on(1, options).printed, {"products in tf32 by "});
  tensor::set_float32_products(tensor::Float32Products::Full);
  options.sync_batch_norm = true;
  EXPECT_EQ(error_of([&] { checked(options); }), "");
}

TEST_F(DeviceTraining, AReplacedRankEndsWithTheBitsOfAnUndisturbedRun) {
  std::vector<std::string> sums;
  for (const bool lost : {false, true}) {
    ElasticJob job(small_run("mlp", "cuda:0"));
    std::vector<std::string> workers{comm::WorkerId{.slot = 0}.text(), comm::WorkerId{.slot = 1}.text()};
    job.publish(workers);
    job.start(workers[0]);
    job.start(workers[1], {lost ? Fault::Where::Update : Fault::Where::Never, 2});
    if (lost) {
      job.wait_for_leavers(0, 1);
      workers[1] = comm::WorkerId{.slot = 1, .incarnation = 1}.text();
      job.publish(workers);
      job.start(workers[1]);
    }
    job.join();
    ASSERT_TRUE(job.of(workers[1]).report) << job.of(workers[1]).error;
    sums.push_back(job.of(workers[1]).report->parameter_sha256);
  }
  EXPECT_EQ(sums[1], sums[0]);
}

// Also where they meet the others in a group of buckets or of layers alone.
TEST_F(DeviceTraining, TheOthersHearARanksOwnError) {
  TrainOptions layers = small_mercer(folder_ / "pictures", "resnet18");
  layers.batch_size = 16;
  layers.reproducible = true;
  for (const TrainOptions& options : {small_run("mlp", "cuda:0"), layers}) {
    ElasticJob job(options);
    const std::string workers[] = {comm::WorkerId{.slot = 0}.text(), comm::WorkerId{.slot = 1}.text()};
    job.publish({workers[0], workers[1]});
    job.start(workers[0]);
    job.start(workers[1], {Fault::Where::Forward, 2, [] { throw std::runtime_error("its picture is torn"); }});
    test::expect_parts(job.wait_for_leavers(0, 1)[0].reason, {"rank 1/2: abort: its picture is torn"});
    job.publish({workers[0]});
    job.join();
    EXPECT_EQ(job.of(workers[1]).error, "its picture is torn");
    EXPECT_TRUE(job.of(workers[0]).report) << job.of(workers[0]).error;
  }
}

// What a rank does on the host for the next batch runs beside the GPU's work on this one.
TEST_F(DeviceTraining, TheNextBatchIsLoadedWhenTheStepsWorkHasBeenGiven) {
  test::run_ranks(1, [&](comm::ProcessGroup& group) {
    const RunInputs inputs = open_inputs(small_run("mlp", "cuda:0"), group);
    inputs.train_loader->begin_epoch(0, inputs.train_loader->batches_per_epoch() - 3);
    DeviceFeed feed(*inputs.train_loader, kGpu);
    Batch batch, host;
    EXPECT_TRUE(feed.next(batch));
    EXPECT_TRUE(inputs.train_loader->next(host));  // the second: it has not been taken
    feed.prefetch();
    EXPECT_FALSE(inputs.train_loader->next(host));  // the third has
    EXPECT_TRUE(feed.next(batch));
    EXPECT_EQ(batch.count, 16);
    EXPECT_FALSE(feed.next(batch));
  });
}

TEST_F(DeviceTraining, ABatchThatCannotBeLoadedAheadIsSaidByTheLoader) {
  struct BeyondTheEnd : Sampler {
    std::vector<std::int64_t> indices(std::int64_t) const override { return {0, 1, 2, 99}; }
    std::int64_t size() const override { return 4; }
  };
  Loader loader(generate_digits(Split::Train, 0, 10), std::make_shared<BeyondTheEnd>(), {.batch_size = 2});
  loader.begin_epoch(0);
  DeviceFeed feed(loader, kGpu);
  Batch batch;
  EXPECT_TRUE(feed.next(batch));
  for (int attempt = 0; attempt < 2; ++attempt)
    test::expect_parts(error_of([&] { feed.prefetch(); }), {"the sampler asks for sample 99"});
  test::expect_parts(error_of([&] { feed.next(batch); }), {"the sampler asks for sample 99"});
  loader.begin_epoch(1);
  EXPECT_TRUE(feed.next(batch));
  EXPECT_EQ(batch.count, 2);
}

TEST_F(DeviceTraining, Bf16GivesNearlyTheCurveOfFloat32) {
  TrainOptions options = small_run("mlp", "cuda:0");
  const double loss = report_of(options, 1).epochs[0].train_loss;
  options.bf16 = true;
  const auto trained = train_on(1, options);
  tensor::set_float32_products(tensor::Float32Products::Full);
  test::expect_parts(trained.printed, {"products in bf16 by "});
  EXPECT_NEAR(trained.reports[0].epochs[0].train_loss, loss, 2e-2 * loss);
}

void look(const tensor::Tensor& x) { EXPECT_TRUE(std::isfinite(tensor::sum(tensor::Variable(x)).data().item())); }

struct LookingNode final : tensor::Node {
  const char* name() const override { return "looking"; }
  void release() override {}
  void backward(tensor::Tensor grad, tensor::InputGradients& inputs) override {
    look(grad);
    inputs.pass(0, grad);
  }
};

/// Looks at its input, or at its gradient, on the host, which no recording allows.
class Looking final : public nn::Module {
 public:
  enum class At { Nothing, Input, Gradient };
  explicit Looking(At at) : at_(at) {}
  tensor::Variable forward(const tensor::Variable& x) override {
    if (at_ == At::Gradient) return tensor::recorded(x.data(), std::make_shared<LookingNode>(), {&x});
    if (at_ == At::Input) look(x.data());
    return x;
  }
  std::string describe() const override { return "Looking()"; }

 private:
  At at_;
};

TEST_F(DeviceTraining, StepsThatCannotBeRecordedRunAsTheyAre) {
  for (const int ranks : {1, 2}) {
    for (const auto at : {Looking::At::Input, Looking::At::Gradient})
      test::run_ranks(ranks, [&](comm::ProcessGroup& group) {
        const bool looks = group.rank() == 0;  // another rank's steps are recorded
        const auto ran = recorded_steps(group, std::make_shared<Looking>(looks ? at : Looking::At::Nothing));
        EXPECT_EQ(ran, (std::vector<bool>{false, false, !looks, !looks, !looks}));
      });
  }
}

/// Work of the main stream that takes until `go` is set; no longer than ten seconds.
struct Gate {
  std::promise<void> go;
  bool in_time = false;
  static void wait(void* gate) {
    auto* const own = static_cast<Gate*>(gate);
    own->in_time = own->go.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }
};

TEST_F(DeviceTraining, ABucketsSumWaitsForNoLaterBucket) {
  test::run_ranks(1, [](comm::ProcessGroup& group) {
    const auto exchange = make_device_exchange(group, {.buckets = std::vector<Bucket>(3), .shapes = {}}, kGpu);
    std::vector<tensor::Tensor> buckets;
    for (int i = 0; i < 3; ++i) buckets.push_back(exchange->bucket_memory(group, 1000, tensor::DType::Float32));
    const std::int64_t size = tensor::cuda::multiprocessors(0) > 4 ? 4096 : 8;  // the emulated GPU has 4
    const tensor::Variable factor(tensor::Tensor::full({size, size}, 0.5).to(kGpu));
    for (int i = 0; i < 20; ++i) (void)tensor::matmul(factor, factor);  // the worker is still waiting at the next line
    for (tensor::Tensor& bucket : buckets) bucket.fill(3);
    exchange->begin(0, buckets[0]);
    Gate summed;
    ASSERT_EQ(cudaLaunchHostFunc(tensor::cuda::current_stream(0), Gate::wait, &summed), cudaSuccess);
    exchange->begin(1, buckets[1]);
    exchange->finish(0, buckets[0]);
    summed.go.set_value();
    exchange->begin(2, buckets[2]);
    for (std::size_t i = 1; i < 3; ++i) exchange->finish(i, buckets[i]);
    EXPECT_TRUE(summed.in_time);
    for (const tensor::Tensor& bucket : buckets) EXPECT_EQ(bucket.to(tensor::Device()).data<float>()[999], 3);
  });
}

/// A step of a model with several buckets: all but the last are summed by a thread beside backward.
TEST_F(DeviceTraining, ManyBucketsGiveTheSumOverRanks) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {
    tensor::Mt19937 random(3);
    std::vector<std::shared_ptr<nn::Module>> layers;
    for (int i = 0; i < 4; ++i) layers.push_back(std::make_shared<nn::Linear>(20, 20, random));
    const auto model = std::make_shared<nn::Sequential>(layers);
    model->to(kGpu);
    DataParallelOptions options;
    options.buckets = {.first_bucket_bytes = 400, .bucket_cap_bytes = 1600};
    DataParallel parallel(model, group, options);
    EXPECT_GT(parallel.buckets().size(), 3u);
    for (int step = 0; step < 3; ++step) {
      for (auto& [name, parameter] : model->named_parameters()) parameter.zero_grad();
      const auto x = tensor::Tensor::full({4, 20}, group.rank() + 1).to(kGpu);
      parallel.backward(tensor::sum(parallel.forward(tensor::Variable(x))), 1);
      parallel.finish();
    }
    const auto last = model->named_parameters().back();  // its bias: a 1 for each of 4 rows of each of 2 ranks
    EXPECT_EQ(last.second.grad().to(tensor::Device()).data<float>()[0], 8);
  });
}

TEST_F(DeviceTraining, ARanksErrorInOneBucketIsNoMismatchInTheNext) {
  if (tensor::cuda_device_count() < 2) GTEST_SKIP() << "one card each";
  ::setenv("TUTTI_DEVICE_COMM", "staged", 1);
  std::string first_cause;
  test::run_ranks_to_failure(2, [&](comm::ProcessGroup& group) {
    tensor::Mt19937 random(3);
    const tensor::Device own{tensor::Device::Kind::Cuda, group.rank()};
    const auto model = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Linear>(6, 8, random), std::make_shared<nn::Linear>(8, 3, random)});
    model->to(own);
    DataParallel parallel(model, group, {.buckets = {.first_bucket_bytes = 1, .bucket_cap_bytes = 1}});
    const tensor::Variable x(tensor::Tensor::full({4, 6}, 1, tensor::DType::Float32, own));
    const auto y = tensor::Tensor::full({4}, group.rank() == 1 ? 77 : 1, tensor::DType::Int64, own);
    const std::string error = error_of([&] {
      parallel.backward(tensor::cross_entropy(parallel.forward(x), y, tensor::Reduction::Sum, 0), 1);
      parallel.finish();
    });
    if (group.rank() == 0) first_cause = error;
    throw std::runtime_error(error);
  });
  ::unsetenv("TUTTI_DEVICE_COMM");
  test::expect_parts(first_cause, {"first cause: rank 1/2", "target 77 in row 0 is outside [0, 3)"});
}

// Ranks that are processes of their own and share a card.

class DeviceProcesses : public testing::Test {
 protected:
  DeviceProcesses() { write_small_mnist(folder_ / "data", 96, 50); }

  test::ProcessesOptions ranks(int count, const std::string& device, int epochs) const {
    return {.command = {TUTTI_DEVICE_TRAIN, (folder_ / "data").string(), device, std::to_string(epochs),
                        (folder_ / "report.json").string()},
            .count = count,
            .environment = {"TUTTI_EMULATOR_MEMORY=256", "TUTTI_DEVICE_COMM=staged"}};
  }

  /// What they report; `err`: what the first one said.
  nlohmann::json report_of(const test::ProcessesOptions& options, std::string* err = nullptr) const {
    test::Processes processes(options);
    for (int rank = 0; rank < options.count; ++rank) {
      EXPECT_EQ(processes.wait(rank), (test::ExitStatus{false, 0})) << processes.err(rank);
    }
    if (err != nullptr) *err = processes.err(0);
    return nlohmann::json::parse(read_whole_file(folder_ / "report.json"));
  }
  double train_loss_of(int count, const std::string& device) const {
    return report_of(ranks(count, device, 1))["epochs"][0]["train_loss"];
  }

  TemporaryFolder folder_;
};

// By "staged" also where each has a card of its own: NCCL, which would be chosen, knows nothing of emulated ones.
TEST_F(DeviceProcesses, TwoThatShareACardTrainAsTheCpuDoes) {
  const double on_cpu = train_loss_of(2, "cpu");
  EXPECT_NEAR(train_loss_of(2, "cuda:0"), on_cpu, 1e-3 * on_cpu);
  EXPECT_NEAR(train_loss_of(2, "cuda"), on_cpu, 1e-3 * on_cpu);  // a card each
}

TEST_F(DeviceProcesses, ADeviceThatIsNotThereIsRefused) {
  test::Processes processes(ranks(1, "cuda:7", 1));
  EXPECT_EQ(processes.wait(0), (test::ExitStatus{false, 2}));
  test::expect_parts(processes.err(0), {"--device cuda:7: there are " + std::to_string(tensor::cuda_device_count())});
}

TEST_F(DeviceProcesses, AKilledRankIsNamedByTheOneThatWaitsForIt) {
  test::Processes processes(ranks(2, "cuda:0", 100000));
  ASSERT_TRUE(processes.wait_for_output(0, "epoch 1/")) << processes.err(0);
  processes.kill(1, SIGKILL);
  const auto end = processes.wait(0);
  ASSERT_TRUE(end.has_value()) << "rank 0 hangs";
  EXPECT_EQ(*end, (test::ExitStatus{false, 1}));
  test::expect_parts(processes.err(0), {"lost rank 1"});
}

TEST_F(DeviceProcesses, ALostRankIsReplacedByAnElasticLauncherAndLeavesNoTrace) {
  const auto whole = report_of(ranks(2, "cuda:0", 3))["parameter_sha256"];
  for (const std::string chaos : {"kill:rank=1,step=4", "freeze:rank=0,step=4"}) {
    test::ProcessesOptions job = ranks(1, "cuda:0", 3);
    job.ranks = false;
    job.command.push_back(chaos);
    const std::vector<std::string> launcher{TUTTI_PROGRAM, "run", "-n", "2", "--elastic", "--max-restarts", "1", "--"};
    job.command.insert(job.command.begin(), launcher.begin(), launcher.end());
    std::string err;
    EXPECT_EQ(report_of(job, &err)["parameter_sha256"], whole) << chaos;
    test::expect_parts(err, {"1 rank starts again, 1 rank goes on"});
  }
}

}  // namespace
}  // namespace tutti::trainer
