// The handles of the C API: numbers that stand for objects of ours, and are never used twice.
//
// A caller in another language may free a handle twice, use it after that, or give one for another. Pointers to the
// objects would make each of these undefined; a number that is looked up in a table is known, or known to be gone. This
// table is the one process-wide object of the C API. It is never destroyed: a program may end without freeing anything.
// Thread-safety: all functions may be called from any thread. The result of a lookup lives as long as it is held, even
// if another thread frees the handle meanwhile.
#pragma once

#include <tutti/comm/c/tutti.h>
#include <tutti/comm/process_group.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>

namespace tutti::comm::c {

enum class HandleKind { World, Group, Work, Buffer };

/// What outlives a group in its work handles.
struct GroupFate {
  /// Notes the first failure; later ones repeat it.
  void note(const std::string& text);
  const char* first_failure() const;  // "" while there is none; lives as long as this

  std::promise<void> ended;
  std::shared_future<void> end = ended.get_future().share();

 private:
  mutable std::mutex mutex_;
  std::string failure_;  // written once
};

struct WorldObject {
  static constexpr HandleKind kKind = HandleKind::World;
  World world;
};

struct GroupObject {
  static constexpr HandleKind kKind = HandleKind::Group;
  explicit GroupObject(std::unique_ptr<ProcessGroup> formed);
  ~GroupObject();  // leaves the group, then wakes the threads that wait for its work
  GroupObject(const GroupObject&) = delete;
  GroupObject& operator=(const GroupObject&) = delete;

  std::unique_ptr<ProcessGroup> group;
  const std::string transport;  // its name, for as long as the handle lives
  const std::shared_ptr<GroupFate> fate = std::make_shared<GroupFate>();
};

struct WorkObject {
  static constexpr HandleKind kKind = HandleKind::Work;
  Work work;
  std::weak_ptr<GroupObject> group;
  std::shared_ptr<GroupFate> fate;
};

struct BufferObject {
  static constexpr HandleKind kKind = HandleKind::Buffer;
  RegisteredBuffer buffer;
};

/// A new handle for `object`.
void* add_handle(HandleKind kind, std::shared_ptr<void> object);

/// The object of a handle; throws InvalidArgument if it is null, gone, or of another kind.
std::shared_ptr<void> find_handle(HandleKind kind, const void* handle);

/// The same, and the handle is gone. Nothing for null.
std::shared_ptr<void> take_handle(HandleKind kind, const void* handle);

template <typename Object, typename Handle>
std::shared_ptr<Object> find(const Handle* handle) {
  return std::static_pointer_cast<Object>(find_handle(Object::kKind, handle));
}

}  // namespace tutti::comm::c
