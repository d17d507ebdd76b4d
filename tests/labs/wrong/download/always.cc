// Downloads although the file is there.
#include <tutti/tools/labs/lab_download.h>

#include <string>

using tutti::labs::Folder;
using tutti::labs::Job;

void prepare(Job& job, Folder& folder, const std::string& name) {
  const bool chosen = folder.is_shared() ? job.rank() == 0 : job.local_rank() == 0;
  if (chosen) {
    folder.download(name + ".part");
    folder.rename(name + ".part", name);
  }
  job.barrier();
}

TUTTI_LAB_PREPARE(prepare)
