// What the examples share: a rank's way from its command line and environment to its exit status.
#pragma once

#include <tutti/comm/process_group.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tutti::examples {

/// "--samples 4096" sets `value`, which holds the default.
struct Option {
  const char* name;
  std::int64_t& value;
  const char* meaning;
};

/// The whole of main(). Reads the options; finds this rank's place in what the launcher has set, as in `tutti run -n 4
/// PROGRAM` (without a launcher it is a world of one); forms the group of all ranks; runs `body`; closes the group.
/// What `body` throws is told on stderr and to the other ranks, so that none of them waits for this one. Returns 0, 1
/// after a failure, 2 for wrong usage.
int run(int argc, char** argv, const std::vector<Option>& options,
        const std::function<void(comm::ProcessGroup& group)>& body);

}  // namespace tutti::examples
