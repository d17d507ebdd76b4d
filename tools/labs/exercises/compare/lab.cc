// Lab compare: grading.

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/measured/checks.h>

namespace tutti::labs {

Lab compare_lab() {
  Lab lab;
  lab.name = "compare";
  lab.title = "Your reduce and all_reduce, timed beside the library's";
  lab.function = "all_reduce";
  lab.check = check_compare;
  return lab;
}

}  // namespace tutti::labs
