// train: a whole run, from data to report, for a group that exists already.
//
// Reads the data, builds model and optimizer, resumes if asked, then per epoch: train_epoch, evaluate, checkpoint,
// one line of progress. What the group holds in common (options, model, final parameters) is compared, never assumed.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/trainer/checkpoint/requests.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/report/run_report.h>

#include <cstdio>
#include <ostream>

namespace tutti::trainer {

struct TrainOutput {
  std::ostream& stream;
  std::FILE* live = nullptr;  // the file behind it: show a line that changes
  std::size_t columns = 0;    // of the screen that it is shown on; 0: there is none
  /// What this rank is asked from outside; heard only with a checkpoint folder. May be null.
  TrainRequests* requests = nullptr;
};

struct ElasticRun;  // elastic/elastic_training.h

/// Collective. `options` went through checked(). `threads` is how many compute threads this rank uses. Only rank 0
/// writes to `output`, to options.json and to the checkpoint folder. Returns the same report on every rank; one with
/// `stopped` set when a rank was asked to end, after a checkpoint. Throws std::runtime_error (comm::Error and DataError
/// among them). `elastic`: this is one generation of a run whose ranks come and go; may be null.
RunReport train(const TrainOptions& options, comm::ProcessGroup& group, int threads, const TrainOutput& output,
                const ElasticRun* elastic = nullptr);

}  // namespace tutti::trainer
