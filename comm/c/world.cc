// This process's place in the world, and the life of groups.
#include <tutti/comm/c/boundary.h>

using namespace tutti::comm;
using namespace tutti::comm::c;

namespace {

constexpr std::size_t kLeastSegment = 64;

tutti_world_options default_world_options() {
  return {.struct_size = sizeof(tutti_world_options),
          .rank = -1,
          .world_size = -1,
          .master_addr = nullptr,
          .master_port = -1,
          .store = nullptr,
          .launcher = nullptr};
}

tutti_group_options default_group_options() {
  const ProcessGroupOptions options;
  return {.struct_size = sizeof(tutti_group_options),
          .name = nullptr,
          .timeout_ms = options.timeout.count(),
          .report_after_ms = options.report_after.count(),
          .algorithm = nullptr,
          .transport = nullptr,
          .bind_address = nullptr,
          .interface_name = nullptr,
          .segment_bytes = options.segment_bytes,
          .reproducible = options.reproducible,
          .encrypt = options.encrypt,
          .trace_file = nullptr};
}

/// The defaults as far as the caller's struct goes, and 0 behind them.
template <typename Options>
void init(Options* options, std::size_t struct_size, Options defaults) {
  require(options, "options");
  if (struct_size < sizeof(Options))
    refuse("struct_size is ", struct_size, "; give sizeof(*options), ", sizeof(Options));
  defaults.struct_size = struct_size;
  std::memset(static_cast<void*>(options), 0, struct_size);
  std::memcpy(options, &defaults, std::min(struct_size, sizeof(Options)));
}

std::optional<int> if_set(int number) { return number < 0 ? std::nullopt : std::optional(number); }
std::optional<std::string> if_set(const char* text) { return text ? std::optional<std::string>(text) : std::nullopt; }

World detected(const tutti_world_options* given) {
  const tutti_world_options options = merged(given, default_world_options());
  return World::detect({.rank = if_set(options.rank),
                        .world_size = if_set(options.world_size),
                        .master_addr = if_set(options.master_addr),
                        .master_port = if_set(options.master_port),
                        .store = if_set(options.store),
                        .launcher = if_set(options.launcher)});
}

ProcessGroupOptions group_options(const tutti_group_options* given) {
  const tutti_group_options options = merged(given, default_group_options());
  if (options.segment_bytes < kLeastSegment)
    refuse("segment_bytes is ", options.segment_bytes, "; at least 64 is needed");
  ProcessGroupOptions own;
  own.name = text_or(options.name, own.name.c_str());
  own.timeout = milliseconds_of(options.timeout_ms, 1, "timeout_ms");
  own.report_after = milliseconds_of(options.report_after_ms, 1, "report_after_ms");
  own.algorithm = text_or(options.algorithm, "");
  own.transport = text_or(options.transport, "");
  own.bind_address = text_or(options.bind_address, "");
  own.interface = text_or(options.interface_name, "");
  own.segment_bytes = options.segment_bytes;
  own.reproducible = options.reproducible != 0;
  own.encrypt = options.encrypt != 0;
  own.trace_file = text_or(options.trace_file, "");
  return own;
}

tutti_group* handle_of(std::unique_ptr<ProcessGroup> group) {
  return static_cast<tutti_group*>(add_handle(HandleKind::Group, std::make_shared<GroupObject>(std::move(group))));
}

}  // namespace

tutti_result tutti_world_options_init(tutti_world_options* options, size_t struct_size) {
  return guarded("tutti_world_options_init", [&] { init(options, struct_size, default_world_options()); });
}

tutti_result tutti_world_detect(const tutti_world_options* options, tutti_world** world) {
  return give("tutti_world_detect", world, "world", [&] {
    auto found = std::make_shared<WorldObject>();
    found->world = detected(options);
    return static_cast<tutti_world*>(add_handle(HandleKind::World, std::move(found)));
  });
}

tutti_result tutti_invite(int world_size, int one_host, char* text, size_t capacity) {
  return guarded("tutti_invite", [&] {
    require(text, "text");
    if (capacity < TUTTI_INVITATION_SIZE) refuse("capacity is ", capacity, "; give ", TUTTI_INVITATION_SIZE, " bytes");
    text[invite(world_size, one_host != 0).copy(text, capacity - 1)] = '\0';
  });
}

tutti_result tutti_world_describe(tutti_world* world, tutti_world_info* info) {
  return guarded("tutti_world_describe", [&] {
    const auto object = find<WorldObject>(world);
    const World& found = object->world;
    hand_out<tutti_world_info>(info, {.struct_size = 0,
                                      .rank = found.rank,
                                      .world_size = found.world_size,
                                      .local_rank = found.local_rank,
                                      .local_world_size = found.local_world_size,
                                      .cpus_per_rank = found.cpus_per_rank,
                                      .master_addr = found.master_addr.c_str(),
                                      .master_port = found.master_port,
                                      .job_id = found.job_id.c_str(),
                                      .detected_from = found.detected_from.c_str()});
  });
}

tutti_result tutti_world_free(tutti_world* world) {
  return guarded("tutti_world_free", [&] { take_handle(HandleKind::World, world); });
}

tutti_result tutti_group_options_init(tutti_group_options* options, size_t struct_size) {
  return guarded("tutti_group_options_init", [&] { init(options, struct_size, default_group_options()); });
}

tutti_result tutti_connect(tutti_world* world, const tutti_group_options* options, tutti_group** group) {
  return give("tutti_connect", group, "group", [&] {
    refuse_within_operator();
    ProcessGroupOptions wanted = group_options(options);
    const World place = world ? find<WorldObject>(world)->world : detected(nullptr);
    return handle_of(ProcessGroup::connect(place, std::move(wanted)));
  });
}

tutti_result tutti_group_describe(tutti_group* group, tutti_group_info* info) {
  return guarded("tutti_group_describe", [&] {
    const auto object = find<GroupObject>(group);
    hand_out<tutti_group_info>(info, {.struct_size = 0,
                                      .rank = object->group->rank(),
                                      .world_size = object->group->world_size(),
                                      .timeout_ms = object->group->timeout().count(),
                                      .name = object->group->name().c_str(),
                                      .transport = object->transport.c_str()});
  });
}

tutti_result tutti_split(tutti_group* group, int color, int key, tutti_group** sub) {
  return on_group("tutti_split", group, [&](ProcessGroup& parent) {
    require(sub, "sub");
    std::unique_ptr<ProcessGroup> part = parent.split(color, key);
    *sub = part ? handle_of(std::move(part)) : nullptr;
  });
}

tutti_result tutti_subgroup(tutti_group* group, const int* ranks, size_t count, tutti_group** sub) {
  return on_group("tutti_subgroup", group, [&](ProcessGroup& parent) {
    require(sub, "sub");
    if (count > 0) require(ranks, "ranks");
    if (count > static_cast<std::size_t>(parent.world_size()))
      refuse("there are ", count, " ranks in the list, but only ", parent.world_size(), " in the group");
    *sub = handle_of(parent.subgroup(std::span(ranks, count)));
  });
}

tutti_result tutti_free(tutti_group* group) {
  return guarded("tutti_free", [&] {
    refuse_within_operator();
    take_handle(HandleKind::Group, group);
  });
}
