// Lab download: grading.

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/measured/checks.h>

namespace tutti::labs {

Lab download_lab() {
  Lab lab;
  lab.name = "download";
  lab.title = "Data that each file system downloads once, whatever happens";
  lab.check = check_download;
  return lab;
}

}  // namespace tutti::labs
