#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/scheduled.h>

#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::Tensor;
using tensor::Variable;

class Scheduled : public Optimizer {
 public:
  Scheduled(std::vector<Variable> parameters, std::unique_ptr<Optimizer> inner, Schedule schedule,
            std::optional<double> clip_norm)
      : Optimizer(std::move(parameters)),
        inner_(std::move(inner)),
        schedule_(std::move(schedule)),
        clip_norm_(clip_norm),
        steps_(Tensor::zeros({1}, tensor::DType::Int64)) {
    if (inner_ == nullptr || !schedule_) throw std::invalid_argument("make_scheduled: no optimizer or no schedule");
    if (clip_norm_ && !(*clip_norm_ > 0)) {
      throw std::invalid_argument("make_scheduled: clip_norm is " + std::to_string(*clip_norm_) +
                                  ", expected more than 0");
    }
    learning_rate_ = schedule_(0);
  }

  void step() override {
    if (clip_norm_) clip_grad_norm(parameters_, *clip_norm_);
    std::int64_t& steps = *steps_.data<std::int64_t>();
    learning_rate_ = schedule_(steps);
    inner_->set_learning_rate(learning_rate_);
    inner_->step();
    ++steps;
  }

  std::string_view name() const override { return inner_->name(); }

  std::vector<std::pair<std::string, Tensor>> state() override {
    auto all = inner_->state();
    all.emplace_back("schedule.step", steps_);
    return all;
  }

 private:
  std::unique_ptr<Optimizer> inner_;
  Schedule schedule_;
  std::optional<double> clip_norm_;
  Tensor steps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_scheduled(std::vector<Variable> parameters, std::unique_ptr<Optimizer> inner,
                                          Schedule schedule, std::optional<double> clip_norm) {
  return std::make_unique<Scheduled>(std::move(parameters), std::move(inner), std::move(schedule), clip_norm);
}

}  // namespace tutti::nn
