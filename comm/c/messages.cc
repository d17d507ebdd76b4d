// Messages between two ranks, and the store.
#include <tutti/comm/c/boundary.h>

using namespace tutti::comm;
using namespace tutti::comm::c;

tutti_result tutti_send(tutti_group* group, const void* data, size_t count, tutti_dtype dtype, int destination,
                        int tag) {
  return on_group("tutti_send", group,
                  [&](ProcessGroup& ranks) { ranks.send(input_of(data, count, dtype), destination, tag); });
}

tutti_result tutti_isend(tutti_group* group, const void* data, size_t count, tutti_dtype dtype, int destination,
                         int tag, tutti_work** work) {
  return start("tutti_isend", group, work,
               [&](ProcessGroup& ranks) { return ranks.isend(input_of(data, count, dtype), destination, tag); });
}

tutti_result tutti_recv(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int source, int tag,
                        int* from) {
  return on_group("tutti_recv", group, [&](ProcessGroup& ranks) {
    const int sender = ranks.recv(output_of(data, count, dtype), source, tag);
    if (from) *from = sender;
  });
}

tutti_result tutti_irecv(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int source, int tag,
                         tutti_work** work) {
  return start("tutti_irecv", group, work,
               [&](ProcessGroup& ranks) { return ranks.irecv(output_of(data, count, dtype), source, tag); });
}

tutti_result tutti_sendrecv(tutti_group* group, const void* outgoing, size_t outgoing_count, int destination,
                            int send_tag, void* incoming, size_t incoming_count, int source, int recv_tag,
                            tutti_dtype dtype, int* from) {
  return on_group("tutti_sendrecv", group, [&](ProcessGroup& ranks) {
    const int sender = ranks.sendrecv(input_of(outgoing, outgoing_count, dtype), destination,
                                      output_of(incoming, incoming_count, dtype), source, send_tag, recv_tag);
    if (from) *from = sender;
  });
}

namespace {

/// Runs `body` with the group's store, the key and a deadline. What fails here is no failure of the group.
template <typename Body>
tutti_result on_store(const char* function, const tutti_group* group, const char* key, int64_t timeout_ms,
                      Body&& body) noexcept {
  return guarded(function, [&] {
    refuse_within_operator();
    require(key, "key");
    const auto object = find<GroupObject>(group);
    std::forward<Body>(body)(*object->group->store(), std::string(key),
                             Deadline::after(milliseconds_of(timeout_ms, 1, "timeout_ms")));
  });
}

}  // namespace

tutti_result tutti_store_set(tutti_group* group, const char* key, const void* value, size_t nbytes,
                             int64_t timeout_ms) {
  return on_store("tutti_store_set", group, key, timeout_ms, [&](Store& store, const auto& name, auto deadline) {
    if (nbytes > 0) require(value, "value");
    store.set(name, std::string_view(static_cast<const char*>(value), nbytes), deadline);
  });
}

tutti_result tutti_store_get(tutti_group* group, const char* key, void* value, size_t capacity, size_t* nbytes,
                             int64_t timeout_ms) {
  return on_store("tutti_store_get", group, key, timeout_ms, [&](Store& store, const auto& name, auto deadline) {
    require(nbytes, "nbytes");
    if (capacity > 0) require(value, "value");
    const std::string found = store.get(name, deadline);
    *nbytes = found.size();
    if (!value) return;
    if (found.size() > capacity)
      refuse("the value of \"", name, "\" has ", found.size(), " bytes, but capacity is ", capacity);
    found.copy(static_cast<char*>(value), capacity);
  });
}

tutti_result tutti_store_wait(tutti_group* group, const char* const* keys, size_t count, int64_t timeout_ms) {
  return on_store("tutti_store_wait", group, "", timeout_ms, [&](Store& store, const std::string&, Deadline deadline) {
    std::vector<std::string> names;
    if (count > 0) require(keys, "keys");
    for (size_t i = 0; i < count; ++i) {
      require(keys[i], ("keys[" + std::to_string(i) + "]").c_str());
      names.emplace_back(keys[i]);
    }
    if (!names.empty()) store.wait(names, deadline);
  });
}

tutti_result tutti_store_add(tutti_group* group, const char* key, int64_t delta, int64_t* sum, int64_t timeout_ms) {
  return on_store("tutti_store_add", group, key, timeout_ms, [&](Store& store, const auto& name, auto deadline) {
    const std::int64_t now = store.add(name, delta, deadline);
    if (sum) *sum = now;
  });
}

tutti_result tutti_store_check(tutti_group* group, const char* key, int* exists, int64_t timeout_ms) {
  return on_store("tutti_store_check", group, key, timeout_ms, [&](Store& store, const auto& name, auto deadline) {
    require(exists, "exists");
    *exists = store.check(std::vector{name}, deadline) ? 1 : 0;
  });
}

tutti_result tutti_store_delete(tutti_group* group, const char* key, int* existed, int64_t timeout_ms) {
  return on_store("tutti_store_delete", group, key, timeout_ms, [&](Store& store, const auto& name, auto deadline) {
    const bool was_there = store.delete_key(name, deadline);
    if (existed) *existed = was_there ? 1 : 0;
  });
}
