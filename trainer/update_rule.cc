#include <tutti/nn/optim/scheduled.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/update_rule.h>

#include <algorithm>
#include <vector>

namespace tutti::trainer {
namespace {

std::unique_ptr<nn::Optimizer> make_optimizer(const TrainOptions& options, std::vector<tensor::Variable> parameters) {
  const double rate = options.effective_learning_rate();
  const double decay = options.effective_weight_decay();
  if (options.optimizer == "sgd") {
    return nn::make_sgd(
        std::move(parameters),
        {.learning_rate = rate, .momentum = options.momentum, .weight_decay = decay, .nesterov = options.nesterov});
  }
  if (options.optimizer == "adadelta") {
    return nn::make_adadelta(std::move(parameters), {.learning_rate = rate, .weight_decay = decay});
  }
  nn::AdamOptions adam;
  adam.learning_rate = rate;
  adam.weight_decay = decay;
  adam.decoupled_weight_decay = options.optimizer == "adamw";
  return nn::make_adam(std::move(parameters), adam);
}

}  // namespace

double TrainOptions::effective_learning_rate() const {
  const double usual = optimizer == "sgd" ? 1e-2 : optimizer == "adadelta" ? 1.0 : 1e-3;
  return learning_rate.value_or(usual);
}

double TrainOptions::effective_weight_decay() const { return weight_decay.value_or(optimizer == "adamw" ? 1e-2 : 0); }

int TrainOptions::effective_schedule_every() const {
  return schedule_every > 0 ? schedule_every : std::max(1, (epochs + 2) / 3);
}

void check_update_rule(const TrainOptions& options) {
  if (options.momentum != 0 && options.optimizer != "sgd") {
    throw UsageError("--momentum belongs to --optimizer sgd; " + options.optimizer + " has its own");
  }
  if (options.nesterov && options.momentum == 0) {
    throw UsageError("--nesterov needs --optimizer sgd and --momentum above 0, 0.9 say");
  }
  if (options.label_smoothing > 0 && objective_of(options.model) != Objective::Classify) {
    throw UsageError("--label-smoothing is for models that classify; " + options.model + " has no labels");
  }
  const bool steps = options.schedule_every > 0 || options.schedule_factor != TrainOptions{}.schedule_factor;
  if (steps && options.schedule != "step") {
    throw UsageError("--schedule-every and --schedule-factor belong to --schedule step; this is " + options.schedule);
  }
  if (options.warm_up_epochs > 0 && options.schedule == "one-cycle") {
    throw UsageError("--warm-up does not go with --schedule one-cycle, which climbs by itself");
  }
}

nn::Schedule make_schedule(const TrainOptions& options, std::int64_t steps_per_epoch) {
  const double rate = options.effective_learning_rate();
  const std::int64_t total = steps_per_epoch * options.epochs;
  nn::Schedule schedule = nn::constant_rate(rate);
  if (options.schedule == "step") {
    schedule = nn::step_decay(rate, steps_per_epoch * options.effective_schedule_every(), options.schedule_factor);
  } else if (options.schedule == "cosine") {
    schedule = nn::cosine_annealing(rate, total);
  } else if (options.schedule == "one-cycle") {
    schedule = nn::one_cycle({.highest = rate, .total = std::max<std::int64_t>(total, 2)});
  }
  if (options.warm_up_epochs == 0) return schedule;
  return nn::with_warm_up(std::move(schedule), steps_per_epoch * options.warm_up_epochs);
}

std::unique_ptr<nn::Optimizer> make_update_rule(const TrainOptions& options, std::vector<tensor::Variable> parameters,
                                                std::int64_t steps_per_epoch, std::optional<double> clip_norm) {
  auto optimizer = make_optimizer(options, parameters);
  if (options.schedule == "none" && options.warm_up_epochs == 0 && !clip_norm) return optimizer;
  return nn::make_scheduled(std::move(parameters), std::move(optimizer), make_schedule(options, steps_per_epoch),
                            clip_norm);
}

std::unique_ptr<nn::Optimizer> make_update_rule(const TrainOptions& options, const nn::Module& model,
                                                std::int64_t steps_per_epoch) {
  std::vector<tensor::Variable> parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.push_back(parameter);
  return make_update_rule(options, std::move(parameters), steps_per_epoch, options.clip_norm);
}

}  // namespace tutti::trainer
