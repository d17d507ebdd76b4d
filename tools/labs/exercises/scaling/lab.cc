// Lab scaling: training in several layouts, and where the time goes.

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/scaling/check.h>

namespace tutti::labs {

Lab scaling_lab() {
  Lab lab;
  lab.name = "scaling";
  lab.title = "Training on more ranks: the curve, and a model of where the time goes";
  lab.first_step = "Add layouts to layouts.txt, and check.";
  lab.check = scaling::check;
  return lab;
}

}  // namespace tutti::labs
