// MeetingFile: the file, in a folder that all hosts see, in which rank 0 publishes an Announcement: the addresses of
// its store server, and its process.
//
// The file appears by rename(2), complete or not at all, also over NFS. Readers open and close the folder before they
// look for the file: an NFS client caches for up to a minute that a file is missing, unless the folder is opened
// (nfs(5), "DATA AND METADATA COHERENCE"). What an earlier run left is replaced; a file that is not a rendezvous's is
// never written to; and of two jobs of the same name, the second one's rank 0 refuses where it can see that the first
// one's still runs.
//
// Thread-safety: none. Nothing blocks but the file system. Internal to comm.
#pragma once

#include <tutti/comm/bootstrap/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::comm {

struct Announcement {
  std::string job;
  int world_size = 0;
  std::string host;      // for people
  std::string identity;  // host_identity() of rank 0
  long pid = 0;
  std::uint64_t started = 0;  // when that process began, in ticks since the host did; with pid it names one process
  std::int64_t time = 0;      // of publishing, in seconds since 1970
  std::string nonce;  // of one rendezvous: the server's job id contains it, so two jobs of one name are never merged
  std::vector<std::string> addresses;  // numbers, best first
  std::uint16_t port = 0;
};

/// Of this process, now.
Announcement own_announcement(const World& world, std::vector<std::string> addresses, std::uint16_t port);

/// One line, of less than 1.2 KiB: JSON behind its HMAC-SHA256 by the job secret. A truncated text, or another job's,
/// is recognized, and without the secret no process can send ranks anywhere.
std::string encode_announcement(const Announcement& announcement, std::string_view job_secret);

enum class Reading { Whole, HalfWritten, OtherSecret, Foreign };

/// Whole: `result` is filled. OtherSecret: filled, but not to be trusted. Foreign: this is no text of ours.
Reading decode_announcement(std::string_view text, std::string_view job_secret, Announcement& result);

/// "rank 0 of job 'slurm-7-0' (pid 71 on host a, 12 s ago)".
std::string text_of(const Announcement& announcement);

/// Whether the process that announced is known to run: it must be one of this host.
bool is_running_here(const Announcement& announcement);

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
  std::string path_;
  std::string secret_;
};

}  // namespace tutti::comm
