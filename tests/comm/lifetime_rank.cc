// One rank of lifetime_test.cc.
//
//   tutti_lifetime_rank global | static | leaked    the group outlives main() in that
//   tutti_lifetime_rank many                        120 groups at once
//   tutti_lifetime_rank together                    two groups at once, of which the first ends first
//   tutti_lifetime_rank shut_down | ended | failed  a group after one that was shut down (and lives on), destroyed,
//   lost
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace tutti::comm;

using Group = std::unique_ptr<ProcessGroup>;

Group global;

Group& holder(const std::string& kind) {
  static Group local;
  static auto* const leaked = new Group;
  return kind == "leaked" ? *leaked : kind == "static" ? local : global;
}

Group connect(const std::string& name = "world") {
  return ProcessGroup::connect(World::detect(), {.name = name, .timeout = std::chrono::seconds(20)});
}

void use(ProcessGroup& group) {
  std::vector<float> values(100'000, 1);
  group.all_reduce(std::span<float>(values));
  if (values.back() != static_cast<float>(group.world_size())) throw Error(ErrorCode::Mismatch, "wrong sum");
}

/// Rank 0 waits for rank 1 so long that it asks the store whether the group has failed.
void use_late(ProcessGroup& group) {
  const std::vector<std::string> nothing = {"nothing"};
  try {
    if (group.rank() == 1) group.store()->wait(nothing, Deadline::after(std::chrono::milliseconds(600)));
  } catch (const Error&) {
  }
  use(group);
}

void use_two_together() {
  Group first = connect(), second = connect("second");
  use(*second);
  use(*first);
  first.reset();
  use(*second);
  second->shutdown();
}

void use_many() {
  Group first = connect();
  std::vector<Group> groups;
  while (groups.size() < 120) {
    groups.push_back(groups.size() % 2 == 0 ? first->split(0) : connect("group" + std::to_string(groups.size())));
    use(*groups.back());
  }
  first->barrier();
}

void use_one_after_the_other(const std::string& end) {
  Group group = connect();
  for (int i = 0; i < 20; ++i) {
    use(*group);
    Group earlier;
    if (end == "failed") {
      try {
        if (group->rank() == i % 2) group->abort("by intent");
        for (;;) use(*group);
      } catch (const Error&) {
      }
    } else if (end == "shut_down") {
      group->shutdown();
      earlier = std::move(group);
    }
    group.reset();
    group = connect();
  }
  use_late(*group);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string what = argv[1];
  try {
    if (what == "together") {
      use_two_together();
    } else if (what == "many") {
      use_many();
    } else if (what == "global" || what == "static" || what == "leaked") {
      Group& group = holder(what);
      group = connect();
      use(*group);
    } else {
      use_one_after_the_other(what);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
