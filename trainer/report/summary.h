// The sentences around a run: what starts, and what came of it. Pure functions.
#pragma once

#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data/dataset.h>
#include <tutti/trainer/evaluate.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/report/run_report.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace tutti::trainer {

/// "39,760".
std::string with_commas(std::int64_t value);

/// What is known of a run before it begins.
RunReport report_of(const TrainOptions& options, const ImageDataset& data, int ranks, int threads);

/// Put at the end of every line that shows a result: "" for real data, else "  [generated digits]" or the like.
std::string data_note(const RunReport& report);

/// "training mlp (39,760 parameters) on mnist: 60,000 train and 10,000 test samples; 2 ranks x batch 64 = 128; ..."
std::string opening_line(const RunReport& report, const TrainOptions& options, std::int64_t parameter_count,
                         const ImageDataset& train, const ImageDataset& test);

/// "resumed after epoch 2 and step 40 of 469 from DIR/epoch-0002-step-000040; that run had 4 ranks, ..."
std::string resumed_line(const ResumedCheckpoint& checkpoint, int ranks);

/// "stopped as asked, in epoch 3 after step 40 of 469; DIR/... is complete: go on from there with --resume"
std::string stopped_line(const std::filesystem::path& checkpoint, int epoch, std::int64_t steps_per_epoch);

/// Several lines without a newline at the end: confusion matrix (of at most so many columns), accuracy or loss, time,
/// checksum.
std::string summary(const RunReport& report, const Evaluation& last, std::size_t columns);

}  // namespace tutti::trainer
