#include <tutti/comm/base/format.h>
#include <tutti/trainer/report/progress.h>
#include <tutti/trainer/report/summary.h>

#include <utility>

namespace tutti::trainer {
namespace {

constexpr std::chrono::milliseconds kShowEvery(200);

using comm::format;

}  // namespace

std::string time_left(double seconds) {
  if (seconds < 90) return format("%.0f s left", seconds);
  return seconds < 5400 ? format("%.0f min left", seconds / 60) : format("%.1f h left", seconds / 3600);
}

Progress::Progress(std::ostream& out, std::FILE* live, std::size_t columns, int total_epochs, std::string data_note,
                   std::int64_t log_every)
    : out_(&out),
      live_(live == nullptr ? nullptr : std::make_unique<comm::LiveLine>(live, true)),
      columns_(columns),
      total_epochs_(total_epochs),
      data_note_(std::move(data_note)),
      log_every_(log_every) {}

Progress::Progress(RunLog& log, int total_epochs, std::string data_note, std::int64_t log_every)
    : log_(&log), total_epochs_(total_epochs), data_note_(std::move(data_note)), log_every_(log_every) {}

void Progress::start_epoch(int epoch, std::int64_t steps, std::int64_t batch, Clock::time_point now) {
  epoch_ = epoch;
  steps_ = steps;
  batch_ = batch;
  done_ = 0;
  began_ = shown_ = now;
}

void Progress::show(std::int64_t index, double loss, Clock::time_point now) {
  ++done_;
  const bool logged = log_every_ > 0 && (index + 1) % log_every_ == 0;
  const bool live = live_ != nullptr && now - shown_ >= kShowEvery;
  if (!logged && !live) return;
  const double seconds = std::chrono::duration<double>(now - began_).count() / static_cast<double>(done_);
  const std::int64_t left = (total_epochs_ - epoch_) * steps_ + steps_ - index - 1;
  std::string text = format("epoch %d/%d  step %lld/%lld  loss %.4f", epoch_, total_epochs_,
                            static_cast<long long>(index + 1), static_cast<long long>(steps_), loss);
  if (live) text += "  " + time_left(seconds * static_cast<double>(left));
  text +=
      "  " + with_commas(static_cast<std::int64_t>(static_cast<double>(batch_) / seconds)) + " samples/s" + data_note_;
  if (logged) return print(text);
  shown_ = now;
  live_->show(text);
}

void Progress::evaluated(std::int64_t count, std::int64_t batches, Clock::time_point now) {
  if (live_ == nullptr || now - shown_ < kShowEvery) return;
  shown_ = now;
  live_->show(format("evaluating  batch %lld/%lld", static_cast<long long>(count), static_cast<long long>(batches)));
}

void Progress::end_epoch(const EpochReport& report) {
  std::string text = format("epoch %d/%d  train loss %.4f", report.epoch, total_epochs_, report.train_loss);
  if (report.train_accuracy) text += format("  train accuracy %.4f", *report.train_accuracy);
  if (report.test_loss) text += format("  test loss %.4f", *report.test_loss);
  if (report.test_accuracy) text += format("  test accuracy %.4f", *report.test_accuracy);
  line(text + format("  %.2f s", report.seconds) + data_note_);
}

void Progress::line(const std::string& text) {
  if (out_ != nullptr) print(text);
}

void Progress::print(const std::string& text) {
  if (log_ != nullptr) log_->line(text);
  if (out_ == nullptr) return;
  clear();
  *out_ << comm::wrapped(text, columns_) << '\n' << std::flush;
}

}  // namespace tutti::trainer
