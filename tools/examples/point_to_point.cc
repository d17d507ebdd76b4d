// Messages between two ranks: blocking, from anybody, and without waiting. (programs.md, row 3)
//
//   tutti run -n 4 build/release/bin/examples/point_to_point
#include <tutti/comm/process_group.h>
#include <tutti/tools/examples/example.h>

#include <cstdio>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using tutti::comm::ProcessGroup;
using tutti::comm::Work;

// send and recv block. What is received has the type and the count that was sent, or both ranks get an error.
void one_message(ProcessGroup& group) {
  float message = 42;
  if (group.rank() == 0) {
    std::printf("rank 0: sending %g to rank 1\n", message);
    group.send(std::span<float>(&message, 1), 1);
  } else if (group.rank() == 1) {
    float received = 0;
    group.recv(std::span<float>(&received, 1), 0);
    std::printf("rank 1: received %g from rank 0\n", received);
  }
}

// recv without a source takes whatever message comes first, and returns who sent it.
void from_anybody(ProcessGroup& group) {
  constexpr int kTag = 1;
  int square = group.rank() * group.rank();
  if (group.rank() > 0) {
    group.send(std::span<int>(&square, 1), 0, kTag);
    return;
  }
  int sum = 0;
  for (int i = 1; i < group.world_size(); ++i) {
    int received = 0;
    const int sender = group.recv(std::span<int>(&received, 1), tutti::comm::kAnySource, kTag);
    if (received != sender * sender) throw std::runtime_error("the message is not what its sender sent");
    sum += received;
  }
  std::printf("rank 0: %d messages from anybody, sum %d\n", group.world_size() - 1, sum);
}

// isend and irecv return at once with a Work handle. All ranks send to the right and receive from the left at the same
// time; the buffers must live until the work is complete.
void without_waiting(ProcessGroup& group) {
  const int right = (group.rank() + 1) % group.world_size();
  const int left = (group.rank() + group.world_size() - 1) % group.world_size();
  std::vector<double> outgoing(100'000, group.rank());
  std::vector<double> incoming(outgoing.size());
  Work sending = group.isend(tutti::comm::const_buffer(std::span(outgoing)), right);
  Work receiving = group.irecv(tutti::comm::buffer(std::span(incoming)), left);
  long looks = 0;
  while (!receiving.is_completed()) ++looks;  // time to compute something
  receiving.wait();                           // throws if it has failed
  sending.wait();
  std::printf("rank %d: received %zu numbers %g from rank %d%s\n", group.rank(), incoming.size(), incoming.back(), left,
              looks > 0 ? ", and did other work meanwhile" : "");
}

}  // namespace

int main(int argc, char** argv) {
  return tutti::examples::run(argc, argv, {}, [](ProcessGroup& group) {
    if (group.world_size() < 2) throw std::runtime_error("messages need two ranks: tutti run -n 2 point_to_point");
    one_message(group);
    from_anybody(group);
    without_waiting(group);
  });
}
