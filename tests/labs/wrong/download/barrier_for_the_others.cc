// Only those who do not download call the barrier.
#include <tutti/tools/labs/lab_download.h>

#include <string>

using tutti::labs::Folder;
using tutti::labs::Job;

void prepare(Job& job, Folder& folder, const std::string& name) {
  const bool chosen = folder.is_shared() ? job.rank() == 0 : job.local_rank() == 0;
  if (chosen && !folder.exists(name)) {
    folder.download(name + ".part");
    folder.rename(name + ".part", name);
  }
  if (!chosen) job.barrier();
}

TUTTI_LAB_PREPARE(prepare)
