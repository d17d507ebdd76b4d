// Lab layouts: task layouts under Slurm.

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/layouts/grade.h>

namespace tutti::labs {

Lab layouts_lab() {
  Lab lab;
  lab.name = "layouts";
  lab.title = "Which task runs on which node: srun's options";
  lab.first_step = "Write one srun line into a.sh, and its three ranks into table.txt.";
  lab.check = layouts::check;
  return lab;
}

}  // namespace tutti::labs
