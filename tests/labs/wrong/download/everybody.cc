// The program as it was: whoever finds no file downloads it.
#include <tutti/tools/labs/lab_download.h>

#include <string>

using tutti::labs::Folder;
using tutti::labs::Job;

void prepare(Job& job, Folder& folder, const std::string& name) {
  if (!folder.exists(name)) {
    folder.download(name);
  }
  (void)job;
}

TUTTI_LAB_PREPARE(prepare)
