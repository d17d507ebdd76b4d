// The judge is the ordinary optimizer behind an all_reduce.
#include <gtest/gtest.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/scheduled.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>

#include <map>
#include <optional>

namespace tutti::trainer {
namespace {

using tensor::Tensor;
using tensor::Variable;

TEST(ShardPlan, EveryElementHasOneOwner) {
  const std::vector<ParameterSize> sizes = {{.count = 1000}, {.count = 7}, {.count = 33}, {.count = 1}};
  for (const Bucket& bucket : plan_buckets(sizes, {.first_bucket_bytes = 200, .bucket_cap_bytes = 1 << 20})) {
    for (const int ranks : {1, 2, 3, 7, 100}) {
      std::map<std::size_t, std::vector<int>> owners;
      std::size_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard = shard_of(bucket, rank, ranks);
        EXPECT_EQ(shard.begin, end);
        EXPECT_EQ(shard.size, shard_size(bucket, ranks));
        EXPECT_EQ(shard.size % 16, 0U);
        EXPECT_LE(shard.size, bucket.count / static_cast<std::size_t>(ranks) + 16);
        end = shard.begin + shard.size;
        for (const ShardPiece& piece : shard.pieces) {
          auto& owned = owners[piece.parameter];
          owned.resize(sizes[piece.parameter].count);
          for (std::size_t i = 0; i < piece.count; ++i) ++owned[piece.begin + i];
          EXPECT_LE(piece.at + piece.count, shard.size);
        }
      }
      EXPECT_GE(end, bucket.count);
      for (const BucketSlot& slot : bucket.slots) {
        EXPECT_EQ(owners[slot.parameter], std::vector<int>(slot.count, 1)) << ranks << " ranks";
      }
    }
  }
}

std::unique_ptr<nn::Optimizer> adam(std::vector<Variable> parameters) {
  return nn::make_adam(std::move(parameters), {.learning_rate = 0.01});
}

struct Plan {
  int ranks = 2;
  OptimizerFactory make = adam;
  BucketLimits limits{.first_bucket_bytes = 4096, .bucket_cap_bytes = 4096};
  std::optional<double> clip_norm{};
  bool sharded = true;
  bool reproducible = false;
  test::Net net = test::Net::Inproc;
  int steps = 5;
};

struct Outcome {
  std::vector<Values> parameters;  // of rank 0
  std::map<std::string, std::pair<std::vector<std::int64_t>, Values>> state;
  std::vector<std::size_t> state_bytes;  // by rank
  double learning_rate = 0;
};

NamedTensors copies(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.emplace_back(name, tensor.clone());
  return all;
}

/// Where a run stands: what a checkpoint holds.
struct Stand {
  int steps = 0;
  std::vector<Tensor> parameters;
  NamedTensors optimizer;
};

void train_step(DataParallel& parallel, nn::Optimizer& optimizer, int step) {
  const Tensor x = numbered({3, 784}, [&](std::int64_t i) {
    return static_cast<float>((step * 31 + i / 784 * 17 + i % 784 * 7) % 23) / 23.0F;
  });
  const Tensor y = numbered<std::int64_t>({3}, [&](std::int64_t i) { return (step + i) % 10; });
  optimizer.zero_grad();
  parallel.backward(cross_entropy(parallel.forward(Variable(x)), y), 0.4);
  parallel.finish();
  optimizer.step();
}

/// Trains the mlp on the same samples on every rank, which is all that an optimizer can tell. Goes on from `from`, and
/// leaves the end in `to`.
Outcome train(const Plan& plan, const Stand* from = nullptr, Stand* to = nullptr) {
  Outcome outcome;
  outcome.state_bytes.resize(static_cast<std::size_t>(plan.ranks));
  test::RunRanksOptions options{.net = plan.net};
  options.group.reproducible = plan.reproducible;
  test::run_ranks(
      plan.ranks,
      [&](comm::ProcessGroup& group) {
        const auto model = nn::make_model("mlp", 1);
        std::vector<Variable> parameters = all_parameters(*model);
        for (std::size_t i = 0; from != nullptr && i < parameters.size(); ++i) {
          parameters[i].data().copy_from(from->parameters[i]);
        }
        DataParallelOptions parallel_options{.buckets = plan.limits};
        if (plan.sharded) parallel_options.exchange = make_shard_exchange;
        DataParallel parallel(model, group, parallel_options);
        std::unique_ptr<nn::Optimizer> optimizer;
        if (plan.sharded) {
          optimizer =
              std::make_unique<ShardedOptimizer>(parameters, parallel.buckets(), group, plan.make, plan.clip_norm);
        } else if (plan.clip_norm) {
          const auto rate = plan.make({})->learning_rate();
          optimizer = nn::make_scheduled(parameters, plan.make(parameters), nn::constant_rate(rate), plan.clip_norm);
        } else {
          optimizer = plan.make(parameters);
        }
        if (from != nullptr) {  // as a checkpoint is resumed
          const NamedTensors whole = full_optimizer_state(*optimizer);
          if (group.rank() == 0) assign_tensors(whole, from->optimizer, "the stand");
          share_optimizer_state(group, *optimizer, whole);
        }
        const int first = from == nullptr ? 0 : from->steps;
        for (int step = first; step < first + plan.steps; ++step) train_step(parallel, *optimizer, step);
        EXPECT_EQ(agreed_parameter_sha256(group, *model).size(), 64u);
        for (const auto& [name, tensor] : optimizer->state()) {
          outcome.state_bytes[static_cast<std::size_t>(group.rank())] += tensor.nbytes();
        }
        const NamedTensors state = full_optimizer_state(*optimizer);
        EXPECT_TRUE(state.empty() || !plan.sharded || group.rank() == 0);
        if (group.rank() != 0) return;
        outcome.learning_rate = optimizer->learning_rate();
        for (const auto& [name, tensor] : state) {
          const auto extents = tensor.shape().extents();
          outcome.state[name] = {{extents.begin(), extents.end()}, values_of(tensor)};
        }
        outcome.parameters = values_of(*model);
        if (to == nullptr) return;
        to->steps = first + plan.steps;
        to->optimizer = copies(state);
        to->parameters.clear();
        for (const Variable& parameter : parameters) to->parameters.push_back(parameter.data().clone());
      },
      options);
  return outcome;
}

void expect_equal_to_plain(Plan plan, const std::string& what) {
  const Outcome sharded = train(plan);
  plan.sharded = false;
  const Outcome plain = train(plan);
  EXPECT_EQ(sharded.parameters, plain.parameters) << what;  // no number here is NaN, and 0 has one sign
  EXPECT_EQ(sharded.learning_rate, plain.learning_rate) << what;
  EXPECT_EQ(sharded.state, plain.state) << what;
}

TEST(ShardedOptimizer, AdamOnTwoRanksEqualsThePlainOneBitForBit) {
  for (const std::size_t cap : {std::size_t{64}, std::size_t{4096}, std::size_t{1} << 24}) {
    Plan plan;
    plan.limits = {.first_bucket_bytes = cap, .bucket_cap_bytes = cap};
    for (const test::Net net : {test::Net::Inproc, test::Net::Shm, test::Net::Tcp}) {
      plan.net = net;
      expect_equal_to_plain(plan, std::to_string(cap) + " bytes, " + test::name(net));
    }
  }
}

// Beyond two ranks all_reduce and reduce_scatter add in an order of their own, unless the group is reproducible.
TEST(ShardedOptimizer, MoreRanksEqualThePlainOneBitForBitWhereSumsDo) {
  for (const int ranks : {3, 4}) {
    for (const test::Net net : {test::Net::Inproc, test::Net::Tcp}) {
      expect_equal_to_plain({.ranks = ranks, .reproducible = true, .net = net}, std::to_string(ranks) + " ranks");
    }
  }
}

TEST(ShardedOptimizer, EveryRuleIsTheSame) {
  const std::map<std::string, OptimizerFactory> rules = {
      {"adamw",
       [](std::vector<Variable> p) {
         return nn::make_adam(std::move(p), {.weight_decay = 0.1, .decoupled_weight_decay = true});
       }},
      {"sgd", [](std::vector<Variable> p) { return nn::make_sgd(std::move(p), {.weight_decay = 0.01}); }},
      {"nesterov",
       [](std::vector<Variable> p) { return nn::make_sgd(std::move(p), {.momentum = 0.9, .nesterov = true}); }},
      {"dampened",
       [](std::vector<Variable> p) { return nn::make_sgd(std::move(p), {.momentum = 0.9, .dampening = 0.5}); }},
      {"adadelta", [](std::vector<Variable> p) { return nn::make_adadelta(std::move(p), {}); }},
      {"one cycle", [](std::vector<Variable> p) {
         auto inner = adam(p);
         return nn::make_scheduled(std::move(p), std::move(inner), nn::one_cycle({.highest = 0.1, .total = 5}));
       }}};
  for (const auto& [name, rule] : rules) {
    Plan plan;
    plan.make = rule;
    expect_equal_to_plain(plan, name);
  }
}

TEST(ShardedOptimizer, ClipsByTheNormOfAllShards) {
  Plan plan;
  plan.clip_norm = 0.05;
  plan.make = [](std::vector<Variable> p) { return nn::make_sgd(std::move(p), {.learning_rate = 1}); };
  const Outcome sharded = train(plan);
  plan.sharded = false;
  const Outcome plain = train(plan);
  plan.clip_norm.reset();
  const Outcome unclipped = train(plan);
  float off = 0;
  float far = 0;
  for (std::size_t p = 0; p < plain.parameters.size(); ++p) {
    for (std::size_t i = 0; i < plain.parameters[p].size(); ++i) {
      off = std::max(off, std::abs(sharded.parameters[p][i] - plain.parameters[p][i]));
      far = std::max(far, std::abs(unclipped.parameters[p][i] - plain.parameters[p][i]));
    }
  }
  EXPECT_LT(off, 1e-6F);
  EXPECT_GT(far, 1e-2F);
}

TEST(ShardedOptimizer, ARankKeepsItsShareOfTheState) {
  Plan plan;
  plan.sharded = false;
  const std::size_t whole = train(plan).state_bytes[0];
  EXPECT_EQ(whole, 39760u * 8 + 4 * 8);  // two moments of 39,760 parameters, and four counts of steps
  for (const int ranks : {2, 4}) {
    plan.sharded = true;
    plan.ranks = ranks;
    plan.limits = {};
    for (const std::size_t bytes : train(plan).state_bytes) {
      EXPECT_LT(bytes, whole / static_cast<std::size_t>(ranks) + 256) << ranks;
    }
  }
}

// From 2 ranks to 3, to 1 without shards, to 4, to 2: where one run is equal at any step, a checkpoint fits any run.
TEST(ShardedOptimizer, AnyNumberOfRanksGoesOnFromItsState) {
  Plan plan{.reproducible = true, .steps = 2};
  plan.make = [](std::vector<Variable> p) {
    auto inner = adam(p);
    return nn::make_scheduled(std::move(p), std::move(inner), nn::cosine_annealing(0.01, 20));
  };
  Stand stand;
  train(plan, nullptr, &stand);
  for (const auto& [ranks, sharded] : {std::pair(3, true), {2, false}, {4, true}, {2, true}}) {
    Plan next = plan;
    next.ranks = ranks;
    next.sharded = sharded;
    const Outcome outcome = train(next, &stand);
    next.sharded = !sharded;
    const Outcome other = train(next, &stand, &stand);
    EXPECT_EQ(outcome.parameters, other.parameters) << ranks;
    EXPECT_EQ(outcome.state, other.state) << ranks;
    EXPECT_EQ(outcome.state.at("schedule.step").second, Values{static_cast<float>(stand.steps)});
    EXPECT_EQ(outcome.state.at("0.step").second, Values{static_cast<float>(stand.steps)});
  }
}

// Adam with weight decay would shrink them.
TEST(ShardedOptimizer, WhatNobodyUsesIsLeftAlone) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {
    const auto model = std::make_shared<HalfUsed>();
    const std::vector<Variable> parameters = all_parameters(*model);
    const Values used = values_of(parameters[0].data());
    const Values idle = values_of(parameters[2].data());
    DataParallel parallel(model, group, {.exchange = make_shard_exchange, .find_unused = true});
    ShardedOptimizer optimizer(parameters, parallel.buckets(), group, [](std::vector<Variable> p) {
      return nn::make_adam(std::move(p), {.weight_decay = 0.1});
    });
    train_step(parallel, optimizer, 0);
    EXPECT_NE(values_of(parameters[0].data()), used);
    EXPECT_EQ(values_of(parameters[2].data()), idle);
  });
}

TEST(ShardedOptimizer, AWorldOfOneOwnsEverything) {
  test::run_ranks(1, [](comm::ProcessGroup& group) {
    const auto model = nn::make_model("mlp", 1);
    const std::vector<Variable> parameters = all_parameters(*model);
    DataParallel parallel(model, group, {.exchange = make_shard_exchange});
    ShardedOptimizer optimizer(parameters, parallel.buckets(), group, adam);
    const Values before = values_of(parameters[0].data());
    train_step(parallel, optimizer, 0);
    EXPECT_NE(values_of(parameters[0].data()), before);
    EXPECT_EQ(optimizer.full_state().size(), 3 * parameters.size());
    EXPECT_EQ(optimizer.whole_state_bytes(), optimizer.state_bytes());
  });
}

}  // namespace
}  // namespace tutti::trainer
