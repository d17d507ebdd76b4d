// One rank of tuning_process_test.cc: takes FOLDER/rank<r>.json as its tuning file, all-reduces and broadcasts, and
// says which algorithms it took.
//
//   tutti_tuning_rank FOLDER
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace tutti::comm;

void run(const std::string& folder) {
  const World world = World::detect();
  ::setenv("TUTTI_TUNING", (folder + "/rank" + std::to_string(world.rank) + ".json").c_str(), 1);
  const auto group = ProcessGroup::connect(world, {.timeout = std::chrono::seconds(20)});
  std::string algorithms;
  for (const std::size_t count : {1, 1000, 100'000}) {
    std::vector<float> values(count, static_cast<float>(world.rank + 1));
    group->all_reduce(std::span<float>(values));
    const int p = world.world_size;
    if (values.front() != static_cast<float>(p * (p + 1) / 2) || values.back() != values.front()) {
      throw Error(ErrorCode::Mismatch, "wrong sum");
    }
    group->broadcast(std::span<float>(values), p - 1);
    algorithms += " " + group->algorithm_for(OpKind::AllReduce, count, DType::Float32);
  }
  std::printf("took%s\n", algorithms.c_str());
  group->shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
