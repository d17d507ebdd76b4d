#include <tutti/comm/base/error.h>
#include <tutti/comm/store/file_members.h>
#include <tutti/comm/store/file_store.h>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kGoodbyeLimit{2000};

}  // namespace

class FileStore::Impl {
 public:
  Impl(const FileStoreOptions& options, Deadline deadline)
      : options_(options), values_(options_, deadline), members_(values_, options_) {
    while (options_.rank >= 0 && !members_.join(deadline)) values_.file().open_again(options_, deadline);
  }

  ~Impl() {
    if (values_.is_forked_child() || options_.rank < 0) return;  // a child only drops its copy of the descriptor
    try {
      members_.leave(Deadline::after(kGoodbyeLimit));
    } catch (const std::exception&) {
      // The file stays, and the next run is told that it is stale.
    }
  }

  FileMap& values() { return values_; }
  FileMembers& members() { return members_; }

  template <typename Look>
  auto await(const char* verb, std::span<const std::string> keys, Deadline deadline, const Look& look) {
    return values_.await(
        verb, keys, deadline, [&] { members_.mark_lost(keys, deadline); }, look);
  }

 private:
  const FileStoreOptions options_;
  FileMap values_;
  FileMembers members_;
};

FileStore::FileStore(const FileStoreOptions& options, Deadline deadline)
    : impl_(std::make_unique<Impl>(options, deadline)) {}

FileStore::~FileStore() = default;

std::string FileStore::path() const { return impl_->values().file().path(); }

void FileStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  impl_->values().write("set", key, deadline, [&](MapChange& change) {
    change.set(key, value);
    return 0;
  });
}

std::string FileStore::get(std::string_view key, Deadline deadline) {
  check_key(key);
  const std::string name(key);
  return impl_->await("get", std::span(&name, 1), deadline, [&](const KeyMap& map) { return *map.find(name); });
}

void FileStore::wait(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  impl_->await("wait for", keys, deadline, [](const KeyMap&) { return 0; });
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  return impl_->values().write("add to", key, deadline, [&](MapChange& change) { return change.add(key, delta); });
}

std::string FileStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                   Deadline deadline) {
  check_value(key, desired);
  return impl_->values().write("compare_set of", key, deadline,
                               [&](MapChange& change) { return change.compare_set(key, expected, desired); });
}

bool FileStore::check(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  const std::string_view first = keys.empty() ? std::string_view() : std::string_view(keys[0]);
  impl_->members().mark_lost(keys, deadline);
  return impl_->values().read("check of", first, deadline, [&](const KeyMap& map) { return map.has_all(keys); });
}

bool FileStore::delete_key(std::string_view key, Deadline deadline) {
  return impl_->values().write("delete of", key, deadline, [&](MapChange& change) { return change.erase(key); });
}

std::int64_t FileStore::num_keys(Deadline deadline) {
  return impl_->values().read("num_keys", {}, deadline,
                              [](const KeyMap& map) { return static_cast<std::int64_t>(map.size()); });
}

void FileStore::append(std::string_view key, std::string_view value, Deadline deadline) {
  impl_->values().write("append to", key, deadline, [&](MapChange& change) {
    change.append(key, value);
    return 0;
  });
}

std::vector<std::string> FileStore::multi_get(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  return impl_->await("multi_get of", keys, deadline, [&](const KeyMap& map) {
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(*map.find(key));
    return values;
  });
}

void FileStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) {
  check_same_length(keys.size(), values.size());
  check_key_count(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_key(keys[i]);
    check_value(keys[i], values[i]);
  }
  if (keys.empty()) return;
  impl_->values().write("multi_set of", keys[0], deadline, [&](MapChange& change) {
    for (std::size_t i = 0; i < keys.size(); ++i) change.set(keys[i], values[i]);
    return 0;
  });
}

}  // namespace tutti::comm
