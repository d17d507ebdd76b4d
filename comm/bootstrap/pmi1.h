// Pmi1: the part of PMI version 1 by which ranks under Hydra (MPICH, Intel MPI) exchange an address.
//
// Lines of "cmd=... key=value ..." over the descriptor PMI_FD, each answered by one line; after a barrier of all
// processes each can get what the others have put. Source: MPICH's simple PMI client and Hydra's server (src/pmi,
// src/pm/hydra in https://github.com/pmodels/mpich); P. Balaji et al., "PMI: A Scalable Parallel Process-Management
// Interface for Extreme-Scale Systems", EuroMPI 2010.
//
// "init" is left to an MPI library: a server serves without it, and refuses a second one. "finalize" cannot be: a
// process that has sent a request and ends without it counts as crashed, and mpiexec kills the others. It can be sent
// only once, so it is sent when the process exits (finalize_pmi_at_exit). The descriptor belongs to the process: one
// object is used at a time, by one thread, and not while MPI_Init runs. The object does not close it.
#pragma once

#include <tutti/comm/base/deadline.h>

#include <functional>
#include <optional>
#include <string>

namespace tutti::comm {

class Pmi1 {
 public:
  /// Asks for the job's key-value space. All methods throw Timeout at the deadline, Protocol if the peer does not speak
  /// PMI version 1, and System if it has gone.
  Pmi1(int descriptor, Deadline deadline);

  /// The server's name for the job; no other job has it.
  const std::string& job() const { return job_; }

  /// `value` is one word without spaces. Throws Protocol if it, or the key, is longer than the server takes.
  void put(const std::string& key, const std::string& value, Deadline deadline);
  /// Nothing if the key is not set.
  std::optional<std::string> get(const std::string& key, Deadline deadline);
  /// Waits for all processes of the job.
  void barrier(Deadline deadline);

 private:
  std::string ask(const std::string& request, const std::string& expected, Deadline deadline);
  [[noreturn]] void misunderstood(const std::string& request, const std::string& answer) const;

  const int descriptor_;
  std::string received_;
  std::string job_;
  std::size_t longest_key_ = 0;
  std::size_t longest_value_ = 0;
};

/// Sends "finalize" when this process exits in good order, if `descriptor` is its PMI_FD and still the same connection
/// then (MPI_Finalize closes it). Not in its forked children. Any number of calls.
void finalize_pmi_at_exit(int descriptor);

}  // namespace tutti::comm
