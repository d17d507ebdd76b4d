// MeetingFile: the file, in a folder that all hosts see, in which rank 0 publishes an Announcement.
//
// It appears by rename(2), complete or not at all, also over NFS. Readers open and close the folder before they look
// for the file: an NFS client caches for up to a minute that a file is missing, unless the folder is opened (nfs(5),
// "DATA AND METADATA COHERENCE"). What an earlier run left is replaced; a file that is not a rendezvous's is never
// written to; and of two jobs of the same name, the second one's rank 0 refuses where it can see that the first one's
// still runs.
//
// Thread-safety: none. Nothing blocks but the file system.
#pragma once

#include <tutti/comm/bootstrap/announcement.h>

#include <optional>
#include <string>
#include <utility>

namespace tutti::comm {

class MeetingFile {
 public:
  MeetingFile(std::string path, std::string job_secret) : path_(std::move(path)), secret_(std::move(job_secret)) {}

  /// Makes the folder if need be. Throws Protocol (something else is at this path), InvalidArgument (a rendezvous of
  /// the same name by another process goes on), System.
  void publish(const Announcement& announcement) const;

  struct Found {
    Reading reading = Reading::HalfWritten;  // never Foreign
    Announcement announcement;
    std::string state;  // "it is half written"; for error texts
  };
  /// Nothing while it is not there. Throws Protocol if it holds something else, System if it cannot be read.
  std::optional<Found> look() const;

  /// Removes the announcement with this nonce, if it is there. Any rank may do so. Never throws.
  void withdraw(const std::string& nonce) const noexcept;

  const std::string& where() const { return path_; }

 private:
  void refuse_what_is_not_ours(const Announcement& announcement) const;

  std::string path_;
  std::string secret_;
};

}  // namespace tutti::comm
