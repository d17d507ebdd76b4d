// The lab `layouts`: whether the student's commands place tasks as the exercise asks, and whether the student's table
// says where they run. What a command does is looked up in exercises/layouts/slurm.txt, which a real Slurm has filled
// in.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs::layouts {

/// Reads the folder.
Report check(const CheckContext& context);

}  // namespace tutti::labs::layouts
