#include <pthread.h>
#include <signal.h>
#include <tutti/trainer/checkpoint/writer.h>

#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

/// Signals are the training thread's: a thread started within this scope receives none.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

CheckpointWriter::CheckpointWriter(std::filesystem::path dir, int keep) : dir_(std::move(dir)), keep_(keep) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

EncodedCheckpoint& CheckpointWriter::space() {
  finish();
  return space_;
}

void CheckpointWriter::start() {
  {
    const std::lock_guard lock(mutex_);
    if (busy_) throw std::logic_error("CheckpointWriter::start: a write is under way; call space() first");
    busy_ = true;
  }
  changed_.notify_all();
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  if (failure_) throw std::runtime_error(*failure_);
}

std::optional<std::string> CheckpointWriter::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<std::filesystem::path> CheckpointWriter::last_complete() const {
  const std::lock_guard lock(mutex_);
  return last_complete_;
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || stopping_; });
    if (!busy_) return;
    const bool broken = failure_.has_value();
    lock.unlock();
    if (!broken) write();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void CheckpointWriter::write() {
  try {
    std::filesystem::path folder = write_checkpoint(dir_, space_);
    {
      const std::lock_guard lock(mutex_);
      last_complete_ = std::move(folder);
    }
    remove_old_checkpoints(dir_, keep_);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
  }
}

}  // namespace tutti::trainer
