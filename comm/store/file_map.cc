#include <tutti/comm/base/error.h>
#include <tutti/comm/store/file_map.h>

namespace tutti::comm {

FileMap::FileMap(const FileStoreOptions& options, Deadline deadline)
    : owner_pid_(::getpid()), file_(options, deadline) {}

FileMap::Use::Use(FileMap& map, StoreFile::Access access, const char* verb, std::string_view key, Deadline deadline)
    : map_(map), access_(access) {
  map_.refuse_forked_child();
  map_.take_turn(deadline);
  try {
    map_.file_.lock(access, deadline);
    map_.file_.catch_up(map_.map_);
  } catch (const Error& error) {
    end();
    const std::string_view keys[] = {key};
    throw Error(error.code(), verb + std::string(key.empty() ? "" : " " + quote_keys(keys, 1)) + ": " + error.what());
  } catch (...) {
    end();
    throw;
  }
}

void FileMap::Use::end() {
  map_.file_.unlock();
  map_.end_turn(access_ == StoreFile::Access::Write);
}

void FileMap::refuse_forked_child() const {
  if (!is_forked_child()) return;
  throw Error(ErrorCode::InvalidArgument, "this FileStore belongs to process " + std::to_string(owner_pid_) +
                                              "; process " + std::to_string(::getpid()) +
                                              " was forked from it and must make its own");
}

void FileMap::take_turn(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Deadline until(std::max(deadline.time_point(), Deadline::Clock::now() + kLongestPause * 20));
  if (!changed_.wait_until(lock, until.time_point(), [this] { return !busy_; }))
    throw Error(ErrorCode::Timeout, "timed out: another thread of this process has been using the store file " +
                                        file_.path() + " for all that time");
  busy_ = true;
}

void FileMap::end_turn(bool wrote) {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  if (wrote) ++writes_;
  changed_.notify_all();
}

void FileMap::sleep_until_changed(std::uint64_t seen, Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.time_point(), [&] { return writes_ != seen; });
}

void FileMap::throw_missing(std::span<const std::string> keys, Deadline::Clock::time_point start) const {
  const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
  throw Error(ErrorCode::Timeout, missing_keys_text(map_.missing(keys), keys.size(), waited.count()) +
                                      " in the store file " + file_.path());
}

}  // namespace tutti::comm
