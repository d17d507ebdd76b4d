// Grading of the lab `layouts`: what the student's commands do on the cluster of cluster.txt, whether that is what the
// exercise asks for, and whether the student's tables say so.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs::layouts {

/// Reads the folder. With `slurm: yes` in cluster.txt it runs the commands, too, and blocks for them.
Report check(const CheckContext& context);

// Diagnoses of this lab.
inline constexpr char kNoCommand[] = "not_started";
inline constexpr char kUnreadable[] = "command_not_understood";
inline constexpr char kRefusedBySlurm[] = "slurm_refuses";
inline constexpr char kWrongLayout[] = "wrong_layout";
inline constexpr char kWrongTable[] = "wrong_table";
inline constexpr char kWrongAnswer[] = "wrong_answer";

}  // namespace tutti::labs::layouts
