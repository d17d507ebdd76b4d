// Where Slurm puts tasks: a model of select/cons_tres with cores as the resource (CR_Core, one thread a core), as Slurm
// 22.05 has it. tests/labs/slurm_layouts compares it with a real Slurm, line by line.
//
// Two things happen one after the other, and that is what surprises people:
// 1. The job gets cores. Without --ntasks-per-node they are taken greedily, node by node, leaving as many as one task
//    needs on each further node of -N: nine tasks on three nodes of four cores get 4, 4 and 1.
// 2. A step's tasks are dealt out over the cores that its job has: one to each node in turn while it has free cores;
//    that gives the number on each node, and block numbers them node by node, cyclic as they were dealt.
// Sources: sbatch(1), srun(1), and src/common/slurm_step_layout.c of Slurm ("we fake a cyclic distribution").
//
// Pure functions over values; they throw PlacementError with what Slurm would say, in a sentence.
#pragma once

#include <tutti/tools/labs/layouts/command_line.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::labs::layouts {

class PlacementError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Cluster {
  std::vector<std::string> nodes;  // in Slurm's order
  int cores = 4;                   // of each
};

struct Task {
  std::string node;
  int local = 0;  // SLURM_LOCALID
  friend bool operator==(const Task&, const Task&) = default;
};

/// By rank (SLURM_PROCID).
using Layout = std::vector<Task>;

struct Placed {
  Layout layout;
  std::vector<std::string> warnings;  // as srun prints them, in our words
};

struct Job {
  std::vector<std::string> nodes;
  std::vector<int> cores;  // that the job has on each of them
  Options options;         // which its steps inherit by SLURM_* variables
};

/// What sbatch or salloc would be given.
Job allocate(const Cluster& cluster, const Options& options);

/// srun within a job.
Placed place_step(const Job& job, const Options& options);

/// srun by itself: a job, and one step on all of it.
Placed place_alone(const Cluster& cluster, const Options& options);

/// "3 on arnold, 3 on bruce".
std::string described(const Layout& layout);

}  // namespace tutti::labs::layouts
