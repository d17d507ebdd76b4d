#include <tutti/comm/base/format.h>
#include <tutti/trainer/report/progress.h>

#include <algorithm>
#include <utility>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kUpdatesPerEpoch = 100;
constexpr char kClearLine[] = "\r\x1b[K";

using comm::format;

}  // namespace

Progress::Progress(std::ostream& out, std::FILE* live, int total_epochs, std::string data_note)
    : out_(&out), live_(live), total_epochs_(total_epochs), data_note_(std::move(data_note)) {}

void Progress::start_epoch(int epoch, std::int64_t steps) {
  epoch_ = epoch;
  steps_ = steps;
  stride_ = std::max<std::int64_t>(1, steps / kUpdatesPerEpoch);
  next_shown_ = live_ != nullptr ? 0 : INT64_MAX;
}

void Progress::show(std::int64_t index, double loss) {
  next_shown_ = index + stride_;
  const auto percent = static_cast<int>(100 * index / std::max<std::int64_t>(1, steps_));
  std::fputs(kClearLine, live_);
  *out_ << format("epoch %d/%d  %3d %%  loss %.4f", epoch_, total_epochs_, percent, loss) << data_note_ << std::flush;
  line_open_ = true;
}

void Progress::clear() {
  if (line_open_) std::fputs(kClearLine, live_);
  line_open_ = false;
}

void Progress::end_epoch(const EpochReport& report) {
  std::string text = format("epoch %d/%d  train loss %.4f", report.epoch, total_epochs_, report.train_loss);
  if (report.test_loss) text += format("  test loss %.4f", *report.test_loss);
  if (report.test_accuracy) text += format("  test accuracy %.4f", *report.test_accuracy);
  line(text + format("  %.2f s", report.seconds) + data_note_);
}

void Progress::line(const std::string& text) {
  if (log_ != nullptr) log_->line(text);
  if (out_ == nullptr) return;
  clear();
  *out_ << text << '\n' << std::flush;
}

}  // namespace tutti::trainer
