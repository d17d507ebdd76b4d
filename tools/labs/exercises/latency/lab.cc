// Lab latency: grading.

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/measured/checks.h>

namespace tutti::labs {

Lab latency_lab() {
  Lab lab;
  lab.name = "latency";
  lab.title = "The time of a message: alpha and beta, measured";
  lab.function = "message_seconds";
  lab.check = check_latency;
  return lab;
}

}  // namespace tutti::labs
