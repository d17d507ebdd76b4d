// Ranks whose messages go over a real ProcessGroup: a lab's function on real ranks.
//
// Blocks and throws as ProcessGroup's point-to-point calls do (comm/process_group.h). Threads: one. The group must
// outlive the object.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/labs/lab.h>

#include <chrono>
#include <cstdint>
#include <map>

namespace tutti::labs {

class GroupRanks : public Ranks {
 public:
  explicit GroupRanks(comm::ProcessGroup& group) : Ranks(group.rank(), group.world_size()), group_(group) {}

 private:
  struct Pending {
    comm::Work work;
    int source;
  };

  void do_send(ConstMemory data, int destination, int tag) override;
  int do_recv(Memory data, int source, int tag) override;
  std::uint64_t do_isend(ConstMemory data, int destination, int tag) override;
  std::uint64_t do_irecv(Memory data, int source, int tag) override;
  int do_sendrecv(ConstMemory outgoing, int destination, Memory incoming, int source, int send_tag,
                  int recv_tag) override;
  int do_wait(std::uint64_t request) override;
  bool is_complete(std::uint64_t request) override;
  void do_forget(std::uint64_t request) noexcept override;
  double do_seconds() override;
  std::uint64_t keep(comm::Work work, int source);

  comm::ProcessGroup& group_;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t last_ = 0;
};

}  // namespace tutti::labs
