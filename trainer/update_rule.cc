#include <tutti/comm/base/format.h>
#include <tutti/nn/optim/scheduled.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/update_rule.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti::trainer {
namespace {

std::string text_of(double value) {
  const std::string shorter = comm::format("%g", value);
  return comm::parse_number(shorter) == value ? shorter : comm::format("%.17g", value);
}

void check_word(const char* option, const std::string& value, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string list;
  for (std::size_t i = 0; i < known.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == known.size() ? " and " : ", ") + known[i];
  }
  throw UsageError(std::string(option) + " " + value + " is not known; there are " + list);
}

void check_not_negative(const char* option, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw UsageError(std::string(option) + " " + text_of(value) + ": must be at least 0");
}

void check_above_zero(const char* option, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw UsageError(std::string(option) + " " + text_of(value) + ": must be above 0");
}

void check_optimizer(const TrainOptions& options) {
  check_word("--optimizer", options.optimizer, {"adam", "adamw", "sgd", "adadelta"});
  check_above_zero("--lr", options.effective_learning_rate());
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw UsageError("--momentum " + text_of(options.momentum) + ": must be at least 0 and below 1");
  }
  if (options.momentum != 0 && options.optimizer != "sgd") {
    throw UsageError("--momentum belongs to --optimizer sgd; " + options.optimizer + " has its own");
  }
  if (options.nesterov && options.momentum == 0) {
    throw UsageError("--nesterov needs --optimizer sgd and --momentum above 0, 0.9 say");
  }
  check_not_negative("--weight-decay", options.effective_weight_decay());
  if (options.clip_norm) check_above_zero("--clip-norm", *options.clip_norm);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw UsageError("--label-smoothing " + text_of(options.label_smoothing) + ": must be from 0 to 1");
  }
  if (options.label_smoothing > 0 && objective_of(options.model) != Objective::Classify) {
    throw UsageError("--label-smoothing is for models that classify; " + options.model + " has no labels");
  }
}

void check_schedule(const TrainOptions& options) {
  check_word("--schedule", options.schedule, {"none", "step", "cosine", "one-cycle"});
  if (options.schedule_every < 0) {
    throw UsageError("--schedule-every " + std::to_string(options.schedule_every) + ": must be at least 1 epoch");
  }
  if (options.schedule_every > 0 && options.schedule != "step") {
    throw UsageError("--schedule-every belongs to --schedule step; this is " + options.schedule);
  }
  check_above_zero("--schedule-factor", options.schedule_factor);
  if (options.warm_up_epochs < 0) {
    throw UsageError("--warm-up " + std::to_string(options.warm_up_epochs) + ": must be at least 0 epochs");
  }
  if (options.warm_up_epochs > 0 && options.schedule == "one-cycle") {
    throw UsageError("--warm-up does not go with --schedule one-cycle, which climbs by itself");
  }
}

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
  check_optimizer(options);
  check_schedule(options);
}

std::map<std::string, std::string> update_rule_texts(const TrainOptions& options) {
  std::map<std::string, std::string> texts{{"optimizer", options.optimizer},
                                           {"lr", text_of(options.effective_learning_rate())},
                                           {"momentum", text_of(options.momentum)},
                                           {"weight-decay", text_of(options.effective_weight_decay())}};
  // What is not used has no line, so that checkpoints stay good when options are added.
  if (options.nesterov) texts["nesterov"] = "yes";
  if (options.clip_norm) texts["clip-norm"] = text_of(*options.clip_norm);
  if (options.label_smoothing > 0) texts["label-smoothing"] = text_of(options.label_smoothing);
  if (options.warm_up_epochs > 0) texts["warm-up"] = std::to_string(options.warm_up_epochs);
  if (options.schedule == "none") return texts;
  texts["schedule"] = options.schedule;
  if (options.schedule == "step") {
    texts["schedule-every"] = std::to_string(options.effective_schedule_every());
    texts["schedule-factor"] = text_of(options.schedule_factor);
  } else {
    texts["epochs of the schedule"] = std::to_string(options.epochs);
  }
  return texts;
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
