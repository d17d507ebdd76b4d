// The environment a launcher gives its ranks: torchrun's names, and Tutti's for the store and the secret.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tools {

/// What all ranks of one start of a job have in common on one node.
struct JobEnvironment {
  int world_size = 1;
  int node = 0;  // GROUP_RANK
  int node_count = 1;
  int first_rank = 0;  // of this node
  int local_size = 1;  // ranks of this node
  std::string host;    // this node's name for people; "" in a job on one host
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::uint16_t store_port = 0;  // of Tutti's store, where the launcher serves it; else 0: rank 0 does, at master_port
  std::string job_id;
  std::string job_secret;
  int restart_count = 0;
  int max_restarts = 0;
};

/// This process's environment with the rank's variables set ("NAME=value", ready for exec) and then `extra` on top.
/// OMP_NUM_THREADS is set to omp_threads(local_size) unless the user has set it.
std::vector<std::string> rank_environment(const JobEnvironment& job, int local_rank,
                                          const std::vector<std::string>& extra = {});

/// CPUs this process may use: those of its affinity mask, or fewer if its control group has a quota; at least 1.
int available_cpus();

/// CPUs for each of `ranks` ranks on this host; at least 1.
int omp_threads(int ranks);

/// A name for a job that no other job on any host has: "tutti-" and 16 random hex digits.
std::string new_job_id();

}  // namespace tutti::tools
