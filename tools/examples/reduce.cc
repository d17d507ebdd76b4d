// The sum of every rank's number, at rank 0. (programs.md, row 3)
//
//   tutti run -n 4 build/release/bin/examples/reduce
#include <tutti/comm/process_group.h>
#include <tutti/tools/examples/example.h>

#include <cstdio>
#include <span>

int main(int argc, char** argv) {
  return tutti::examples::run(argc, argv, {}, [](tutti::comm::ProcessGroup& group) {
    const int message = group.rank();
    std::printf("rank %d: sending %d\n", group.rank(), message);
    int sum = 0;
    // Only the root gives memory for the result; everybody's message stays as it is.
    const std::span<int> result = group.rank() == 0 ? std::span<int>(&sum, 1) : std::span<int>();
    group.reduce(std::span<const int>(&message, 1), result, tutti::comm::ReduceOp::Sum, 0);
    if (group.rank() == 0) std::printf("rank 0: sum of all messages is %d\n", sum);
  });
}
