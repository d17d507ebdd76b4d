// One training step of each model, as bench/peers/torch_step.py does it in PyTorch: same model, batch, loss and
// optimizer.
//   build/release/bin/step_bench [--threads N] [--seconds S] [MODEL ...]
// Prints for each model: "tutti MODEL BATCH THREADS MILLISECONDS PARAMETERS PEAK_MIB", the time being the median of S
// seconds of steps, the memory the process's largest resident set so far.
#include <sys/resource.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/tensor/random.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

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
  explicit Stepper(const Work& work) : model_(tutti::nn::make_model(work.model, 0)), x_(Tensor::empty(work.input)) {
    tutti::tensor::Mt19937 generator(1);
    float* values = x_.data<float>();
    for (std::int64_t i = 0; i < x_.numel(); ++i) values[i] = generator.uniform(0, 1);
    if (work.classes > 0) {
      std::vector<std::int64_t> labels(static_cast<std::size_t>(work.input[0]));
      for (std::int64_t& label : labels) label = generator.next() % work.classes;
      targets_ = Tensor::from({work.input[0]}, labels);
    }
    std::vector<Variable> parameters;
    for (auto& [name, parameter] : model_->named_parameters()) parameters.push_back(parameter);
    optimizer_ = work.adam ? tutti::nn::make_adam(std::move(parameters), {})
                           : tutti::nn::make_sgd(std::move(parameters), {.learning_rate = 0.01});
  }

  void step() {
    optimizer_->zero_grad();
    const Variable output = model_->forward(Variable(x_));
    Variable loss =
        targets_.defined() ? tutti::nn::cross_entropy(output, targets_) : tutti::nn::reconstruction_loss(output, x_);
    loss.backward();
    optimizer_->step();
  }

  std::int64_t parameter_count() const { return model_->parameter_count(); }

 private:
  std::shared_ptr<tutti::nn::Module> model_;
  std::unique_ptr<tutti::nn::Optimizer> optimizer_;
  Tensor x_;
  Tensor targets_;
};

double median_milliseconds(Stepper& stepper, double seconds) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  constexpr std::size_t kFewest = 4;
  for (int warm = 0; warm < 2; ++warm) stepper.step();
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < kFewest || Milliseconds(Clock::now() - start).count() < seconds * 1e3) {
    const auto before = Clock::now();
    stepper.step();
    times.push_back(Milliseconds(Clock::now() - before).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

struct Arguments {
  int threads = 1;
  double seconds = 3;
  std::vector<std::string> models;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool known = std::any_of(works().begin(), works().end(), [&](const Work& w) { return word == w.model; });
    if (known) {
      arguments.models.push_back(word);
    } else if (i + 1 < argc && word == "--threads") {
      arguments.threads = std::atoi(argv[++i]);
    } else if (i + 1 < argc && word == "--seconds") {
      arguments.seconds = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "step_bench: '%s' is neither --threads N, --seconds S nor one of:", word.c_str());
      for (const Work& work : works()) std::fprintf(stderr, " %s", work.model);
      std::fputc('\n', stderr);
      return std::nullopt;
    }
  }
  return arguments;
}

void run(const Work& work, const Arguments& arguments) {
  Stepper stepper(work);
  const double milliseconds = median_milliseconds(stepper, arguments.seconds);
  std::printf("tutti %s %lld %d %.3f %lld %ld\n", work.model, static_cast<long long>(work.input[0]), arguments.threads,
              milliseconds, static_cast<long long>(stepper.parameter_count()), peak_mib());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::optional<Arguments> arguments = parse(argc, argv);
    if (!arguments) return 2;
    tutti::tensor::set_num_threads(arguments->threads);
    for (const Work& work : works()) {
      const auto& wanted = arguments->models;
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), work.model) != wanted.end()) run(work, *arguments);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
}
