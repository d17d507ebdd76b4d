#include <tutti/comm/work.h>

namespace tutti::comm {

void Work::wait() {
  while (!wait_for(std::chrono::seconds(1))) {
  }
}

bool Work::wait_for(std::chrono::milliseconds timeout) {
  if (!state_) return true;
  if (!state_->wait_for(timeout)) return false;
  if (auto error = state_->exception()) std::rethrow_exception(error);
  return true;
}

}  // namespace tutti::comm
