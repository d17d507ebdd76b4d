// Ranks over a real ProcessGroup: what a solution runs on in the student's own build.
//
// Threads: one, as ProcessGroup says. Errors of the group are thrown as they are (comm::Error).
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/labs/lab.h>

#include <cstdint>
#include <map>

namespace tutti::labs {

class ProcessGroupRanks final : public Ranks {
 public:
  /// `group` must live as long.
  explicit ProcessGroupRanks(comm::ProcessGroup& group);
  ~ProcessGroupRanks() override;

 private:
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

  std::uint64_t kept(comm::Work work);

  comm::ProcessGroup& group_;
  std::map<std::uint64_t, comm::Work> under_way_;
  std::uint64_t next_ = 1;
};

}  // namespace tutti::labs
