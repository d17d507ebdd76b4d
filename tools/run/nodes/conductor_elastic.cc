// What a Conductor decides for an elastic job: how a round goes on when ranks or nodes are lost, or nodes come.
#include <tutti/tools/run/nodes/conductor.h>

#include <utility>

namespace tutti::tools {

void Conductor::make_stores(RoundPlan& plan, const Hello& first) {
  plan.master_port = options_.store ? outside_.new_torch_store() : first.reserved_port;
  if (!options_.store) return;
  if (!options_.elastic) {
    plan.store_port = outside_.new_job_store(plan.world_size, plan.job_id);
    return;
  }
  ElasticLimits limits = *options_.elastic;
  limits.max_restarts = options_.max_restarts - restarts_;
  elastic_ = outside_.new_elastic_round(plan, limits, [this](const std::string& line) { tell(line + "\n"); });
  plan.store_port = elastic_->job().store_port();
  plan.control_port = elastic_->job().control_port();
}

void Conductor::on_ranks(int agent, const RanksChanged& changed) {
  const std::optional<int> node = node_of(agent);
  if (!elastic_ || !node || changed.round != round_->plan.round) return;
  elastic_->changed(*node, changed);
}

void Conductor::rescue(Clock::time_point now) {
  const ElasticRound::Step step = elastic_->look(now);
  RoundPlan& plan = round_->plan;
  plan.world_size = elastic_->job().world_size();
  plan.store_port = elastic_->job().store_port();
  for (const auto& [node, order] : step.orders) post_to_node(node, order);
  for (const auto& [node, first_rank] : step.joined) {
    plan.nodes.at(static_cast<std::size_t>(node)).first_rank = first_rank;
    joining_.erase(node);
    post_to_node(node, plan);
  }
  if (step.give_up) stop_round(AttemptOrder::Kind::Settle);
}

// Not to one that is lost.
void Conductor::post_to_node(int node, const Message& message) {
  const int agent = order_.at(static_cast<std::size_t>(node));
  if (formation_.agents().contains(agent)) outside_.post(agent, message);
}

// The loss of `node`: true if the ranks of the other nodes run on.
bool Conductor::goes_on_without(int node) {
  if (!elastic_ || round_->ended.contains(node)) return false;
  const bool had_no_ranks = joining_.erase(node) > 0;
  if (!had_no_ranks) {
    const std::size_t others = round_->plan.nodes.size() - without_.size() - joining_.size() - 1;
    const bool comes_again = observer_ && others > 0;  // started by the launcher
    const bool enough =
        options_.nodes.fixed_size() ? comes_again : static_cast<int>(others) >= options_.nodes.min_nodes;
    if (!enough || phase_ != Phase::Running || !elastic_->program_is_elastic()) return false;
    if (options_.nodes.fixed_size() && !elastic_->use_restart()) return false;
  }
  without_.insert(node);
  round_->ended[node] = {};
  elastic_->node_gone(node);
  if (phase_ != Phase::Running) return true;
  if (observer_) {
    outside_.post(*observer_, Verdict{round_->plan.round, false, 0, "the agent of that node is started again\n"});
  }
  for (const auto& [agent, hello] : formation_.agents()) {
    if (!node_of(agent)) admit_newcomer(agent);  // a spare
  }
  return true;
}

// Its ranks get places at the next step boundary, and it its plan once they have.
void Conductor::take_in(int agent) {
  RoundPlan& plan = round_->plan;
  const int node = static_cast<int>(plan.nodes.size());
  plan.nodes.push_back(place_of(agent, plan.world_size));
  order_.push_back(agent);
  joining_.insert(node);
  elastic_->node_comes(node, plan.nodes.back());
  tell(name_of(agent) + " has come; the others take its ranks in and run on\n");
}

}  // namespace tutti::tools
