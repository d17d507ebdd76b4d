#include <fcntl.h>
#include <sys/file.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/trainer/checkpoint/checkpoint_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEpochMark = "epoch-";
constexpr std::string_view kStepMark = "-step-";

[[noreturn]] void cannot(const std::string& what, const fs::path& path, const std::error_code& error) {
  throw std::runtime_error("cannot " + what + " " + path.string() + ": " + error.message());
}

/// Takes `mark` and the number behind it off the front of `text`.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return std::nullopt;
  Number number = 0;
  const char* begin = text.data() + mark.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool is_left_over(std::string_view name) {
  return name.starts_with(".epoch-") && (name.ends_with(".incomplete") || name.ends_with(".deleted"));
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) cannot("delete the folder", folder, error);
}

std::vector<fs::path> entries_of(const fs::path& dir) {
  std::error_code error;
  fs::directory_iterator entry(dir, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  std::vector<fs::path> paths;
  while (!error && entry != fs::directory_iterator()) {
    paths.push_back(entry->path());
    entry.increment(error);
  }
  if (error) cannot("read the checkpoint folder", dir, error);
  return paths;
}

}  // namespace

std::string checkpoint_folder_name(int epoch, std::int64_t step) {
  const std::string name = comm::format("epoch-%04d", epoch);
  return step > 0 ? name + comm::format("-step-%06lld", static_cast<long long>(step)) : name;
}

std::optional<CheckpointPosition> checkpoint_position(const std::string& folder_name) {
  std::string_view rest = folder_name;
  const auto epoch = take_number<int>(rest, kEpochMark);
  if (!epoch) return std::nullopt;
  if (rest.empty()) return CheckpointPosition{.epoch = *epoch, .step = 0};
  const auto step = take_number<std::int64_t>(rest, kStepMark);
  if (!step || *step == 0 || !rest.empty()) return std::nullopt;
  return CheckpointPosition{.epoch = *epoch, .step = *step};
}

std::vector<fs::path> checkpoints_in(const fs::path& dir) {
  std::vector<std::pair<CheckpointPosition, fs::path>> found;
  for (const fs::path& path : entries_of(dir)) {
    std::error_code ignored;
    const auto position = checkpoint_position(path.filename().string());
    if (position && fs::is_directory(path, ignored)) found.emplace_back(*position, path);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<fs::path> folders;
  for (auto& [position, path] : found) folders.push_back(std::move(path));
  return folders;
}

std::optional<fs::path> newest_checkpoint(const fs::path& dir) {
  const auto all = checkpoints_in(dir);
  if (all.empty()) return std::nullopt;
  return all.front();
}

void clear_left_overs(const fs::path& dir) {
  for (const fs::path& path : entries_of(dir)) {
    if (is_left_over(path.filename().string())) remove_folder(path);
  }
}

void remove_old_checkpoints(const fs::path& dir, int keep) {
  if (keep <= 0) return;
  const auto all = checkpoints_in(dir);
  for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
    // Under its old name it is whole or gone: nobody must find half a checkpoint there.
    const fs::path doomed = dir / ("." + all[i].filename().string() + ".deleted");
    std::error_code error;
    fs::rename(all[i], doomed, error);
    if (error) cannot("delete the old checkpoint", all[i], error);
    remove_folder(doomed);
  }
}

fs::path set_aside(const fs::path& folder) {
  fs::path aside = folder;
  aside += ".damaged";
  for (int i = 2; fs::exists(aside); ++i) {
    aside = folder;
    aside += ".damaged-" + std::to_string(i);
  }
  std::error_code error;
  fs::rename(folder, aside, error);
  if (error) cannot("set aside the damaged checkpoint", folder, error);
  sync_folder(folder.parent_path());
  return aside;
}

namespace {

std::string holder_of(const std::filesystem::path& file) {
  try {
    std::string text = read_whole_file(file);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.empty() ? "" : " (" + text + ")";
  } catch (const std::runtime_error&) {
    return "";
  }
}

/// For the reader of an error: who we are. That it could not be written is no reason to stop.
void write_holder(int descriptor) noexcept {
  const std::string text = "process " + std::to_string(::getpid()) + " on " + comm::host_name() + "\n";
  if (::ftruncate(descriptor, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::write(descriptor, text.data(), text.size());
}

/// A folder that was made just now must survive a power failure, too; so must the one around it (a run's folder). Not
/// every parent may be opened, and then it was there before.
void sync_parents(const std::filesystem::path& dir) {
  std::filesystem::path parent = std::filesystem::absolute(dir);
  for (int level = 0; level < 2; ++level) {
    parent = parent.parent_path();
    try {
      sync_folder(parent);
    } catch (const std::runtime_error&) {
      return;
    }
  }
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& dir, std::chrono::milliseconds patience) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) throw std::runtime_error("cannot create the folder " + dir.string() + ": " + error.message());
  sync_parents(dir);
  const std::filesystem::path file = dir / ".lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw std::runtime_error("cannot write " + file.string() + ": " + std::strerror(errno));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error_number = errno;
    if (error_number == EINTR) continue;
    if (error_number != EWOULDBLOCK) return;  // a file system without locks
    if (std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    ::close(descriptor_);
    throw std::runtime_error("the folder " + dir.string() + " is in use by another run" + holder_of(file) +
                             "; give each run a --checkpoint-dir (or --run-dir) of its own, or end the other one");
  }
  write_holder(descriptor_);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace tutti::trainer
