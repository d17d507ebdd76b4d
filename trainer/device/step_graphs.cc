#include <tutti/comm/base/log.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/shared_batch.h>
#include <tutti/tensor/cuda/graph.h>
#include <tutti/trainer/device/device_feed.h>
#include <tutti/trainer/device/step_graphs.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::trainer {
namespace {

constexpr int kStepsBefore = 2;
constexpr std::size_t kMostGraphs = 4;  // batches of many lengths are not what graphs are for

}  // namespace

struct StepGraphs::Recorded {
  Batch batch;  // at the addresses that the graph reads
  tensor::Tensor loss;
  std::vector<tensor::Tensor> gradients;  // by parameter, at the addresses that it writes; undefined: none
  std::vector<std::int64_t> batches;      // by how many each of counting_ goes on
  std::unique_ptr<tensor::cuda::Graph> graph;
};

StepGraphs::StepGraphs(DataParallel& parallel, Objective objective, double label_smoothing)
    : parallel_(parallel), objective_(objective), label_smoothing_(label_smoothing) {
  const bool on_gpu = device_of(parallel.model()).kind == tensor::Device::Kind::Cuda;
  counting_ = nn::batch_norm_layers(parallel.model());
  possible_ = on_gpu && tensor::cuda::Graph::allowed() &&
              std::ranges::none_of(counting_, [](auto* layer) { return layer->shares_batch(); });
}

StepGraphs::~StepGraphs() = default;

std::vector<std::int64_t> StepGraphs::batches() const {
  std::vector<std::int64_t> result;
  for (const nn::BatchNorm2d* layer : counting_) result.push_back(layer->batches());
  return result;
}

std::optional<tensor::Tensor> StepGraphs::run(const Batch& batch, double share) {
  if (!possible_ || batch.count == 0) return std::nullopt;
  const Key key{batch.count, share};
  auto found = recorded_.find(key);
  const bool replays = found != recorded_.end();  // then forward, which counts, does not run
  if (!replays) {
    if (seen_[key]++ < kStepsBefore || recorded_.size() == kMostGraphs) return std::nullopt;
    try {
      found = recorded_.emplace(key, record(batch, share)).first;
    } catch (const std::runtime_error& error) {
      possible_ = false;
      recorded_.clear();
      parallel_.model().zero_grad();  // some were noted as there
      comm::log(comm::LogLevel::Warn,
                std::string("training steps are not recorded, but run one by one: ") + error.what());
      return std::nullopt;
    }
  }
  Recorded& recorded = *found->second;
  recorded.batch.x.copy_from(batch.x);
  recorded.batch.y.copy_from(batch.y);
  recorded.batch.keys.copy_from(batch.keys);
  recorded.graph->launch();
  for (std::size_t i = 0; replays && i < counting_.size(); ++i) {
    counting_[i]->set_batches(counting_[i]->batches() + recorded.batches[i]);
  }
  parallel_.accept_gradients(recorded.gradients);
  return recorded.loss;
}

std::unique_ptr<StepGraphs::Recorded> StepGraphs::record(const Batch& batch, double share) {
  auto recorded = std::make_unique<Recorded>();
  recorded->batch = batch;
  recorded->batch.x = batch.x.clone();
  recorded->batch.y = batch.y.clone();
  recorded->batch.keys = batch.keys.to(batch.x.device()).clone();
  const std::vector<std::int64_t> before = batches();
  const auto forward_and_backward = [&] {
    const nn::SampleKeys keys(recorded->batch.keys);
    const tensor::Variable output = parallel_.forward(tensor::Variable(recorded->batch.x));
    const tensor::Variable loss = loss_of(objective_, output, recorded->batch, label_smoothing_);
    const auto quiet = parallel_.no_sync();  // what is recorded starts no exchange
    parallel_.backward(loss, share);
    recorded->loss = loss.data();
  };
  try {
    recorded->graph = std::make_unique<tensor::cuda::Graph>(batch.x.device(), forward_and_backward);
  } catch (...) {
    for (std::size_t i = 0; i < before.size(); ++i) counting_[i]->set_batches(before[i]);
    throw;
  }
  recorded->batches = batches();
  for (std::size_t i = 0; i < before.size(); ++i) recorded->batches[i] -= before[i];
  recorded->gradients = parallel_.gradients();
  return recorded;
}

}  // namespace tutti::trainer
