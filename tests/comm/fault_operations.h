// What the ranks of the fault tests do together, by name.
#pragma once

#include <tutti/comm/process_group.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm::test {

using Floats = std::vector<float>;

struct Buffers {
  explicit Buffers(ProcessGroup& group);

  Floats few = Floats(16);
  Floats one = Floats(20'000);
  Floats many = Floats(1'000'000);
  Floats gathered;                  // as many for each rank
  Floats received;                  // the same
  Floats huge;                      // empty until wanted; TCP links send what is as long in turns
  std::vector<std::size_t> counts;  // of the v-forms; their sum is gathered's
  RegisteredBuffer registered;
};

using Operation = std::function<void(ProcessGroup& group, Buffers& buffers)>;

/// One operation of each kind, rank 1 being the root: "all_reduce", "p2p", ...
const std::map<std::string, Operation>& fault_operations();

/// What rank 1 calls while the others call something else: `what` differs ("operation", "order", "dtype", ...) between
/// calls of `count` elements, 20,000 at most.
void disagree(const std::string& what, std::size_t count, ProcessGroup& group, Buffers& buffers);

}  // namespace tutti::comm::test
