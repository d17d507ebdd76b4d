// An elastic job in one process: workers as threads, a launcher that a test speaks for, and workers that fail on order.
#pragma once

#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/trainer/elastic/elastic_training.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tutti::trainer {

/// This worker is dead.
class Killed : public std::runtime_error {
 public:
  Killed() : std::runtime_error("this worker was killed by the test") {}
};

/// What happens to a worker, and where.
struct Fault {
  enum class Where { Never, Forward, Update, Evaluation, Checkpoint };
  Where where = Where::Never;
  int at = 1;  // the how many-th time
  std::function<void()> what = [] { throw Killed(); };
};

/// Counts, and lets it happen when it is time.
class Fuse {
 public:
  explicit Fuse(Fault fault) : fault_(std::move(fault)) {}
  void burn(Fault::Where where) {
    if (where == fault_.where && --fault_.at == 0) fault_.what();
  }

 private:
  Fault fault_;
};

class FaultyModel : public nn::Module {
 public:
  FaultyModel(std::shared_ptr<nn::Module> inner, std::shared_ptr<Fuse> fuse)
      : inner_(register_module("inner", std::move(inner))), fuse_(std::move(fuse)) {}
  tensor::Variable forward(const tensor::Variable& input) override {
    fuse_->burn(is_training() ? Fault::Where::Forward : Fault::Where::Evaluation);
    return inner_->forward(input);
  }
  std::string describe() const override { return inner_->describe(); }

 private:
  std::shared_ptr<nn::Module> inner_;
  std::shared_ptr<Fuse> fuse_;
};

class FaultyOptimizer : public nn::Optimizer {
 public:
  FaultyOptimizer(std::vector<tensor::Variable> parameters, std::shared_ptr<nn::Optimizer> inner,
                  std::shared_ptr<Fuse> fuse)
      : Optimizer(std::move(parameters)), inner_(std::move(inner)), fuse_(std::move(fuse)) {}
  void step() override {
    fuse_->burn(Fault::Where::Update);
    inner_->step();
    set_learning_rate(inner_->learning_rate());
    stepped_ = true;
  }
  std::string_view name() const override { return inner_->name(); }
  std::vector<std::pair<std::string, tensor::Tensor>> state() override {
    if (stepped_) fuse_->burn(Fault::Where::Checkpoint);
    return inner_->state();
  }

 private:
  std::shared_ptr<nn::Optimizer> inner_;
  std::shared_ptr<Fuse> fuse_;
  bool stepped_ = false;
};

class ElasticJob {
 public:
  explicit ElasticJob(TrainOptions options) : options_(std::move(options)) { options_.threads = 1; }
  ~ElasticJob() { join(); }
  ElasticJob(const ElasticJob&) = delete;
  ElasticJob& operator=(const ElasticJob&) = delete;

  void publish(const std::vector<std::string>& workers) {
    comm::Generation generation;
    generation.number = static_cast<int>(servers_.size());
    if (generation.number == 0) first_size_ = static_cast<int>(workers.size());
    generation.first_size = first_size_;
    generation.master_addr = "127.0.0.1";
    generation.job_id = "job/" + std::to_string(generation.number);
    generation.workers = workers;
    servers_.push_back(std::make_unique<comm::TcpStoreServer>(
        comm::TcpStoreServerOptions{.job_id = generation.job_id, .job_secret = "secret"}));
    generation.master_port = servers_.back()->port();
    comm::publish_generation(*control_, generation, soon());
  }

  void start(const std::string& worker, Fault fault = {}) {
    threads_.emplace_back([this, worker, fault = std::move(fault)] { work(worker, fault); });
  }

  /// Blocks until that many workers have left generation `number`; returns why.
  std::vector<comm::WorkerReason> wait_for_leavers(int number, std::size_t count) {
    for (const auto deadline = soon(); !deadline.expired(); std::this_thread::yield()) {
      auto left = comm::left_generation(*control_, number, soon());
      if (left.size() >= count) return left;
    }
    throw std::runtime_error("generation " + std::to_string(number) + " is not left");
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  /// After join(): what it printed as rank 0, how it ended.
  struct Outcome {
    std::optional<RunReport> report;
    bool killed = false;
    std::string error;
    std::string printed;
  };
  const Outcome& of(const std::string& worker) { return outcomes_[worker]; }

 private:
  static comm::Deadline soon() { return comm::Deadline::after(std::chrono::seconds(50)); }

  void work(const std::string& worker, Fault fault) {
    Outcome outcome;
    std::ostringstream out;
    try {
      comm::GenerationMember member(control_, worker, "secret", soon());
      const auto fuse = std::make_shared<Fuse>(fault);
      const ElasticTraining training{.options = options_,
                                     .member = member,
                                     .output = {.stream = out},
                                     .prepared = [&](TrainingState& state) { make_faulty(state, fuse); },
                                     .look_every = std::chrono::milliseconds(1),
                                     .patience = std::chrono::seconds(50)};
      outcome.report = train_elastically(training);
    } catch (const Killed&) {
      outcome.killed = true;
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    outcome.printed = out.str();
    const std::lock_guard lock(mutex_);
    outcomes_[worker] = outcome;
  }

  static void make_faulty(TrainingState& state, const std::shared_ptr<Fuse>& fuse) {
    std::vector<tensor::Variable> parameters;
    for (const auto& [name, parameter] : state.model->named_parameters()) parameters.push_back(parameter);
    state.model = std::make_shared<FaultyModel>(state.model, fuse);
    state.optimizer = std::make_shared<FaultyOptimizer>(parameters, state.optimizer, fuse);
  }

  TrainOptions options_;
  const std::shared_ptr<comm::HashStore> control_ = std::make_shared<comm::HashStore>();
  std::vector<std::unique_ptr<comm::TcpStoreServer>> servers_;
  std::vector<std::thread> threads_;
  int first_size_ = 0;
  std::mutex mutex_;
  std::map<std::string, Outcome> outcomes_;  // guarded by mutex_
};

}  // namespace tutti::trainer
