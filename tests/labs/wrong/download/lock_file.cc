// Whoever makes the lock downloads; the others ask until it is gone. A killed job leaves the lock.
#include <tutti/tools/labs/lab_download.h>

#include <string>

using tutti::labs::Folder;
using tutti::labs::Job;

void prepare(Job& job, Folder& folder, const std::string& name) {
  (void)job;
  if (folder.exists(name)) return;
  if (folder.create(name + ".lock")) {
    folder.download(name + ".part");
    folder.rename(name + ".part", name);
    folder.remove(name + ".lock");
  }
  while (!folder.exists(name)) {
  }
}

TUTTI_LAB_PREPARE(prepare)
