// What all ranks of a run must be told alike, and that they were: options and data, compared by name before the first
// step. options_that_must_agree (options.h) is another question: what a continuation shares with its checkpoint.
#pragma once

#include <tutti/comm/bootstrap/settings.h>
#include <tutti/comm/process_group.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/task.h>

namespace tutti::trainer {

/// Every option but those that are each rank's own: where its data and cache lie, which device
/// of its kind, its threads, the file of its report, how long it waits, what is to go wrong in it; encrypt and trace
/// are compared when the group forms.
comm::Settings options_of_all_ranks(const TrainOptions& options);

/// Collective. Throws the same std::runtime_error on every rank, naming each option or data set that differs, with all
/// values and their ranks.
void check_same_options(comm::ProcessGroup& group, const TrainOptions& options, const TaskData& data);

}  // namespace tutti::trainer
