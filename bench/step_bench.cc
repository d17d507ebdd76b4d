// One training step of each model, as bench/peers/torch_step.py does it in PyTorch: same model, batch, loss and
// optimizer.
//   build/release/bin/step_bench [--threads N] [--seconds S] [--device cuda:0] [--tf32 | --bf16] [--every K]
//                                [MODEL[:BATCH] ...]
// Prints for each model: "tutti MODEL BATCH THREADS MILLISECONDS PARAMETERS PEAK_MIB", the time being the median of S
// seconds of steps, the memory the process's largest resident set so far, or what it has taken of the GPU. The loss is
// read after every K steps (1), and must be a number: until then a GPU may be behind.
#include <sys/resource.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/products.h>
#include <tutti/tensor/random.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using tutti::tensor::Device;
using tutti::tensor::Float32Products;

using tutti::tensor::Shape;
using tutti::tensor::Tensor;
using tutti::tensor::Variable;

struct Work {
  const char* model;
  Shape input;
  std::int64_t classes;  // 0: the input is the target
  bool adam;             // otherwise SGD
};

const std::vector<Work>& works() {
  static const std::vector<Work> kWorks = {
      {"mlp", {64, 28, 28, 1}, 10, true},         {"autoencoder", {128, 28, 28, 1}, 0, true},
      {"simple_net", {32, 64, 64, 3}, 21, false}, {"cnn", {64, 28, 28, 1}, 10, true},
      {"resnet18", {32, 64, 64, 3}, 21, false},   {"resnet50", {16, 64, 64, 3}, 21, false},
      {"resnet101", {4, 64, 64, 3}, 21, false},
  };
  return kWorks;
}

// Everything that a step needs, made once.
class Stepper {
 public:
  Stepper(const Work& work, Device device)
      : model_(tutti::nn::make_model(work.model, 0)), x_(Tensor::empty(work.input)) {
    tutti::tensor::Mt19937 generator(1);
    float* values = x_.data<float>();
    for (std::int64_t i = 0; i < x_.numel(); ++i) values[i] = generator.uniform(0, 1);
    if (work.classes > 0) {
      std::vector<std::int64_t> labels(static_cast<std::size_t>(work.input[0]));
      for (std::int64_t& label : labels) label = generator.next() % work.classes;
      targets_ = Tensor::from({work.input[0]}, labels).to(device);
    }
    model_->to(device);
    x_ = x_.to(device);
    std::vector<Variable> parameters;
    for (auto& [name, parameter] : model_->named_parameters()) parameters.push_back(parameter);
    optimizer_ = work.adam ? tutti::nn::make_adam(std::move(parameters), {})
                           : tutti::nn::make_sgd(std::move(parameters), {.learning_rate = 0.01});
  }

  void step(bool read_loss) {
    optimizer_->zero_grad();
    const Variable output = model_->forward(Variable(x_));
    Variable loss =
        targets_.defined() ? tutti::nn::cross_entropy(output, targets_) : tutti::nn::reconstruction_loss(output, x_);
    loss.backward();
    optimizer_->step();
    if (read_loss && !std::isfinite(loss.data().item())) throw std::runtime_error("the loss is not finite");
  }

  std::int64_t parameter_count() const { return model_->parameter_count(); }

 private:
  std::shared_ptr<tutti::nn::Module> model_;
  std::unique_ptr<tutti::nn::Optimizer> optimizer_;
  Tensor x_;
  Tensor targets_;
};

double median_milliseconds(Stepper& stepper, double seconds, int every) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  constexpr std::size_t kFewest = 4;
  for (int warm = 0; warm < 2; ++warm) stepper.step(true);
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < kFewest || Milliseconds(Clock::now() - start).count() < seconds * 1e3) {
    const auto before = Clock::now();
    for (int step = 1; step <= every; ++step) stepper.step(step == every);
    times.push_back(Milliseconds(Clock::now() - before).count() / every);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::size_t peak_mib(Device device) {
  if (device.kind == Device::Kind::Cuda) {
    const auto use = tutti::tensor::cuda::memory_use(device);
    return (use.live_bytes + use.cached_bytes) >> 20;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) / 1024;
}

struct Arguments {
  int threads = 1;
  double seconds = 3;
  Device device;
  int every = 1;
  std::vector<Work> works;  // none: all
};

/// "resnet18", "resnet18:256"
std::optional<Work> work_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  const auto found = std::ranges::find(works(), word.substr(0, colon), &Work::model);
  if (found == works().end()) return std::nullopt;
  Work work = *found;
  if (colon == std::string::npos) return work;
  std::vector<std::int64_t> extents(work.input.extents().begin(), work.input.extents().end());
  extents[0] = std::atoi(word.c_str() + colon + 1);
  work.input = Shape(extents);
  return work;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (const auto known = work_of(word)) {
      arguments.works.push_back(*known);
    } else if (i + 1 < argc && word == "--threads") {
      arguments.threads = std::atoi(argv[++i]);
    } else if (i + 1 < argc && word == "--seconds") {
      arguments.seconds = std::atof(argv[++i]);
    } else if (i + 1 < argc && word == "--every") {
      arguments.every = std::max(1, std::atoi(argv[++i]));
    } else if (i + 1 < argc && word == "--device") {
      arguments.device = tutti::tensor::parse_device(argv[++i]);
    } else if (word == "--tf32" || word == "--bf16") {
      tutti::tensor::set_float32_products(word == "--tf32" ? Float32Products::Tf32 : Float32Products::Bf16);
    } else {
      std::fprintf(stderr,
                   "step_bench: '%s' is not one of --threads N, --seconds S, --device D, --every K, --tf32, --bf16 and",
                   word.c_str());
      for (const Work& work : works()) std::fprintf(stderr, " %s", work.model);
      std::fputc('\n', stderr);
      return std::nullopt;
    }
  }
  return arguments;
}

void run(const Work& work, const Arguments& arguments) {
  Stepper stepper(work, arguments.device);
  const double milliseconds = median_milliseconds(stepper, arguments.seconds, arguments.every);
  std::printf("tutti %s %lld %d %.3f %lld %zu\n", work.model, static_cast<long long>(work.input[0]), arguments.threads,
              milliseconds, static_cast<long long>(stepper.parameter_count()), peak_mib(arguments.device));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::optional<Arguments> arguments = parse(argc, argv);
    if (!arguments) return 2;
    tutti::tensor::set_num_threads(arguments->threads);
    for (const Work& work : arguments->works.empty() ? works() : arguments->works) run(work, *arguments);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
}
