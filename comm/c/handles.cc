#include <pthread.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/c/handles.h>

#include <unordered_map>

namespace tutti::comm::c {
namespace {

constexpr unsigned kKindBits = 2;
constexpr const char* kNames[] = {"world", "group", "work", "buffer"};

const char* name_of(HandleKind kind) { return kNames[static_cast<int>(kind)]; }

HandleKind kind_in(std::uintptr_t handle) { return static_cast<HandleKind>(handle & ((1u << kKindBits) - 1)); }

[[noreturn]] void refuse_handle(HandleKind kind, std::uintptr_t handle, std::uintptr_t last) {
  const std::string wanted = name_of(kind);
  if (handle == 0) refuse("the ", wanted, " handle is NULL");
  const std::string shown = "handle " + std::to_string(handle);
  const bool known = handle >> kKindBits != 0 && handle >> kKindBits <= last;
  if (!known) refuse(shown, ", given as a ", wanted, ", never was one");
  if (kind_in(handle) != kind) refuse(shown, " is a ", name_of(kind_in(handle)), ", not a ", wanted);
  refuse(shown, ", a ", wanted, ", has been freed");
}

struct Table {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, std::shared_ptr<void>> objects;
  std::uintptr_t last = 0;

  /// With the mutex held. Throws InvalidArgument if there is no such object.
  auto at(HandleKind kind, const void* handle) {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const auto found = objects.find(number);
    if (found == objects.end() || kind_in(number) != kind) refuse_handle(kind, number, last);
    return found;
  }
};

Table& table() {
  // A fork waits for the lock, so that the child finds it free: its groups refuse to work, with an error.
  static Table* const the_table = [] {
    static Table* made = new Table;
    ::pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); }, [] { made->mutex.unlock(); });
    return made;
  }();
  return *the_table;
}

}  // namespace

void GroupFate::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = text;
}

const char* GroupFate::first_failure() const {
  const std::lock_guard lock(mutex_);
  return failure_.empty() ? "" : failure_.c_str();
}

GroupObject::GroupObject(std::unique_ptr<ProcessGroup> formed)
    : group(std::move(formed)), transport(group->transport_name()) {}

GroupObject::~GroupObject() {
  group.reset();
  fate->ended.set_value();
}

void* add_handle(HandleKind kind, std::shared_ptr<void> object) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const std::uintptr_t handle = ((all.last + 1) << kKindBits) | static_cast<std::uintptr_t>(kind);
  all.objects.emplace(handle, std::move(object));
  ++all.last;
  return reinterpret_cast<void*>(handle);  // NOLINT: never dereferenced
}

std::shared_ptr<void> find_handle(HandleKind kind, const void* handle) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  return all.at(kind, handle)->second;
}

std::shared_ptr<void> take_handle(HandleKind kind, const void* handle) {
  if (!handle) return nullptr;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  return all.objects.extract(all.at(kind, handle)).mapped();
}

}  // namespace tutti::comm::c
