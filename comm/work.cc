#include <tutti/comm/work.h>

namespace tutti::comm {

void Work::wait() {
  if (!state_) return;
  state_->wait();
  if (auto error = state_->exception()) std::rethrow_exception(error);
}

bool Work::wait_for(std::chrono::milliseconds timeout) {
  if (!state_) return true;
  if (!state_->wait_for(timeout)) return false;
  if (auto error = state_->exception()) std::rethrow_exception(error);
  return true;
}

void Work::on_completion(std::function<void()> callback) const {
  if (!state_) return callback();
  state_->on_completion(std::move(callback));
}

}  // namespace tutti::comm
