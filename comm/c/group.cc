// A group's description, its buffers, its end, and work handles.
#include <tutti/comm/c/boundary.h>

#include <limits>

using namespace tutti::comm;
using namespace tutti::comm::c;

namespace {

/// Runs `body` with the work; a failure is noted as its group's.
template <typename Body>
tutti_result on_work(const char* function, const tutti_work* handle, Body&& body) noexcept {
  return with_fate(function, [&](std::shared_ptr<GroupFate>& fate) {
    const auto object = find<WorkObject>(handle);
    fate = object->fate;
    std::forward<Body>(body)(*object);
  });
}

/// Waits up to `limit`, says whether it is complete, and throws its error. Does not use the group, which may end
/// meanwhile: that completes its work.
void hand_out_completion(Work& work, std::chrono::milliseconds limit, int* completed) {
  require(completed, "completed");
  *completed = work.is_completed() || limit.count() > 0;  // stays so where the wait throws the work's error
  if (*completed && !work.wait_for(limit)) *completed = 0;
}

}  // namespace

tutti_result tutti_rank(tutti_group* group, int* rank) {
  return give("tutti_rank", rank, "rank", [&] { return find<GroupObject>(group)->group->rank(); });
}

tutti_result tutti_world_size(tutti_group* group, int* world_size) {
  return give("tutti_world_size", world_size, "world_size",
              [&] { return find<GroupObject>(group)->group->world_size(); });
}

tutti_result tutti_world_ranks(tutti_group* group, int* ranks, size_t capacity) {
  return guarded("tutti_world_ranks", [&] {
    require(ranks, "ranks");
    const auto object = find<GroupObject>(group);
    const std::span<const int> all = object->group->world_ranks();
    if (capacity < all.size()) refuse("capacity is ", capacity, ", but the group has ", all.size(), " ranks");
    std::copy(all.begin(), all.end(), ranks);
  });
}

tutti_result tutti_group_error(tutti_group* group, const char** text) {
  return give("tutti_group_error", text, "text", [&] { return find<GroupObject>(group)->fate->first_failure(); });
}

tutti_result tutti_recent_operations(tutti_group* group, char* text, size_t capacity, size_t* length) {
  return guarded("tutti_recent_operations", [&] {
    if (capacity > 0) require(text, "text");
    const std::string all = find<GroupObject>(group)->group->recent_operations();
    if (capacity > 0) text[all.copy(text, capacity - 1)] = '\0';
    if (length) *length = all.size();
  });
}

tutti_result tutti_shutdown(tutti_group* group) {
  return on_group("tutti_shutdown", group, [](ProcessGroup& ranks) { ranks.shutdown(); });
}

tutti_result tutti_abort(tutti_group* group, const char* reason) {
  return guarded("tutti_abort", [&] {
    refuse_within_operator();
    const auto object = find<GroupObject>(group);
    object->group->abort(text_or(reason, "its program gave no reason"));
  });
}

tutti_result tutti_allocate(tutti_group* group, size_t nbytes, tutti_buffer** buffer) {
  return give("tutti_allocate", buffer, "buffer", [&] {
    const auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (nbytes > most) refuse("nbytes is ", nbytes, ", more than there is memory for");
    auto made = std::make_shared<BufferObject>();
    made->buffer = find<GroupObject>(group)->group->allocate(nbytes);
    return static_cast<tutti_buffer*>(add_handle(HandleKind::Buffer, std::move(made)));
  });
}

tutti_result tutti_buffer_data(tutti_buffer* buffer, void** data, size_t* nbytes) {
  return guarded("tutti_buffer_data", [&] {
    require(data, "data");
    const auto object = find<BufferObject>(buffer);
    *data = object->buffer.data();
    if (nbytes) *nbytes = object->buffer.nbytes;
  });
}

tutti_result tutti_buffer_free(tutti_buffer* buffer) {
  return guarded("tutti_buffer_free", [&] { take_handle(HandleKind::Buffer, buffer); });
}

tutti_result tutti_work_wait(tutti_work* work) {
  return on_work("tutti_work_wait", work, [](WorkObject& object) {
    const std::shared_ptr<GroupObject> group = object.group.lock();  // kept while a thread waits
    if (!group) object.fate->end.wait();                             // its end completes the work
    object.work.wait();
  });
}

tutti_result tutti_work_wait_for(tutti_work* work, int64_t timeout_ms, int* completed) {
  return on_work("tutti_work_wait_for", work, [&](WorkObject& object) {
    hand_out_completion(object.work, milliseconds_of(timeout_ms, 0, "timeout_ms"), completed);
  });
}

tutti_result tutti_work_test(tutti_work* work, int* completed) {
  return on_work("tutti_work_test", work, [&](WorkObject& object) {
    hand_out_completion(object.work, std::chrono::milliseconds(0), completed);
  });
}

tutti_result tutti_work_source(tutti_work* work, int* source) {
  return give("tutti_work_source", source, "source", [&] { return find<WorkObject>(work)->work.source_rank(); });
}

tutti_result tutti_work_on_completion(tutti_work* work, void (*callback)(void* context), void* context) {
  return on_work("tutti_work_on_completion", work, [&](WorkObject& object) {
    if (!callback) refuse("callback is NULL");
    object.work.on_completion([=] { callback(context); });
  });
}

tutti_result tutti_work_free(tutti_work* work) {
  return guarded("tutti_work_free", [&] { take_handle(HandleKind::Work, work); });
}
