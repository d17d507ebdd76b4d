// A Slurm step: what `srun` gives each of its tasks, and how to tell a task from a process that merely runs in a job.
//
// SLURM_PROCID=0 and SLURM_NTASKS=6 do not make a world of six: sbatch's own script has them, too, and waiting for five
// others there is a hang. A task has SLURM_STEP_ID; SLURM_STEP_NUM_TASKS is its step's size, while SLURM_NTASKS may be
// the job's. A heterogeneous step (srun a : b) numbers its tasks as one. Nothing here looks at node lists: they are the
// job's, not the step's, or sorted anew (https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES").
#pragma once

#include <tutti/comm/bootstrap/launchers/launchers.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

/// The place of a step's task; a remark where there is a job but no step.
LauncherSearch find_slurm_step(const Environment& environment);

/// "2(x3),1" is 2, 2, 2, 1. Nothing if it is not of this form, or has more than 65536 entries.
std::optional<std::vector<int>> slurm_counts(const std::string& text);

}  // namespace tutti::comm
