// FileStore: a store in one file that all ranks can reach, on this host or over NFS; for where no socket can be shared.
//
// All operations of Store, by locking the file (store_file.h says how, and why it is safe against processes that are
// killed at any point). Every process keeps a copy of all values and catches up with the file at each call. The file
// keeps every change, and grows with them. A wait polls every 1 to 10 ms: prefer TcpStore for many ranks. A process
// that asks for the keys "tutti/lost" and "tutti/lost/<rank>" (tcp_store_server.h) notices a rank that has died without
// a goodbye from the locks that its process held.
//
// The file belongs to one run of one job. The first process makes it, complete or not at all, with the job's id and
// world size in it; the last rank to leave in good order removes it. A file that is something else is never written to:
// the constructor throws at once, naming the file, what was found and what to do, when it is
//   stale         of another job, or this rank has joined it already as another process: an earlier run left it
//   half-written  empty, cut short, or damaged
//   foreign       not a file of a Tutti store of this version, or no regular file
//   exposed       not this user's, or others may read or write it (its content is trusted, like the job secret's file)
//
// Thread-safety, deadlines: as Store. Waits for a lock end 0.2 s beyond the deadline at most. A forked child gets
// InvalidArgument and must make its own.
#pragma once

#include <tutti/comm/store/store.h>

#include <memory>

namespace tutti::comm {

struct FileStoreOptions {
  std::string path = "";  // the file; or a folder, in which the file is named after the job's id
  std::string job_id = "default";
  int rank = -1;  // -1: not a rank
  int world_size = -1;
};

class FileStore final : public Store {
 public:
  /// Throws Protocol (half-written, foreign), Unauthorized (stale, exposed, another world size), System (no such
  /// folder, no locks on this file system, ...), Timeout if the lock cannot be had by `deadline`.
  FileStore(const FileStoreOptions& options, Deadline deadline);
  ~FileStore() override;

  /// The file that is used.
  std::string path() const;

 private:
  StoreResult do_call(const StoreRequest& request, Deadline deadline) override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::comm
