#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/elastic/training_state.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>

namespace tutti::trainer {
namespace {

/// Everything of a run that is tensors, sharing its memory.
NamedTensors tensors_of(const TrainingState& state) {
  NamedTensors all = model_tensors(*state.model);
  for (auto& [name, tensor] : state.optimizer->state()) all.emplace_back("optimizer." + name, tensor);
  return all;
}

/// The donor's tensors into those of the ranks that need them. Everybody takes part; who needs nothing, and who fails
/// half-way, is left as it was.
void hand_over(comm::ProcessGroup& group, TrainingState& state, int donor, bool needed) {
  const NamedTensors own = tensors_of(state);
  NamedTensors received;
  for (const auto& [name, tensor] : own) {
    tensor::Tensor packed =
        group.rank() == donor ? tensor.contiguous() : tensor::Tensor::empty(tensor.shape(), tensor.dtype());
    broadcast(group, packed, donor);
    if (needed) received.emplace_back(name, packed);
  }
  if (needed) assign_tensors(own, received, "the state of rank " + std::to_string(donor));
}

std::vector<EpochReport> donors_epochs(comm::ProcessGroup& group, const TrainingState& state, int donor) {
  const bool mine = group.rank() == donor;
  return epochs_from_json(broadcast_text(group, mine ? epochs_to_json(state.epochs) : "", donor));
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

}  // namespace

void TrainingState::commit(CheckpointPosition now, const LossSum& sum_now, double seconds_now) {
  position = now;
  sum = sum_now;
  seconds = seconds_now;
  const auto present = model->named_buffers();
  if (buffers.empty()) {
    for (const auto& [name, buffer] : present) buffers.emplace_back(name, buffer.clone());
  } else {
    for (std::size_t i = 0; i < present.size(); ++i) buffers[i].second.copy_from(present[i].second);
  }
  begun = true;
}

void TrainingState::roll_back() {
  if (!begun) {
    model.reset();
    optimizer.reset();
    buffers.clear();
    return;
  }
  auto present = model->named_buffers();
  for (std::size_t i = 0; i < present.size(); ++i) present[i].second.copy_from(buffers[i].second);
}

Meeting meet(comm::ProcessGroup& group, TrainingState& state) {
  const CheckpointPosition mine = state.begun ? state.position : CheckpointPosition{.epoch = -1};
  const std::vector<CheckpointPosition> places = all_gather_values(group, mine);
  Meeting meeting;
  const auto newest = std::max_element(places.begin(), places.end());  // the first of equals
  meeting.donor = static_cast<int>(newest - places.begin());
  meeting.anybody = newest->epoch >= 0;
  if (!meeting.anybody) return meeting;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const CheckpointPosition& place = places[static_cast<std::size_t>(rank)];
    if (place.epoch < 0) meeting.fresh.push_back(rank);
    if (place.epoch >= 0 && place < *newest) meeting.behind.push_back(rank);
  }
  if (meeting.fresh.empty() && meeting.behind.empty()) return meeting;
  const bool needed = mine < *newest;
  const auto epochs = donors_epochs(group, state, meeting.donor);
  hand_over(group, state, meeting.donor, needed);
  if (!needed) return meeting;
  state.epochs = epochs;
  const bool same_epoch = state.begun && state.position.epoch == newest->epoch;
  const LossSum sum = same_epoch ? state.sum : LossSum{};
  state.commit(*newest, sum, same_epoch ? state.seconds : 0);
  return meeting;
}

std::string meeting_text(const Meeting& meeting, const TrainingState& state, std::int64_t steps_per_epoch) {
  std::string text = "epoch " + std::to_string(state.position.epoch + 1) + ", step " +
                     std::to_string(state.position.step) + " of " + std::to_string(steps_per_epoch) +
                     "; state of rank " + std::to_string(meeting.donor);
  if (!meeting.fresh.empty()) text += ", given to " + ranks_text(meeting.fresh) + " (new)";
  if (!meeting.behind.empty()) text += ", given to " + ranks_text(meeting.behind) + " (a step behind)";
  return text;
}

}  // namespace tutti::trainer
