// What rank 0 publishes about the rendezvous: the addresses of its store server, and its process.
//
// Lines of key=value, the last of them an HMAC-SHA256 of the others by the job secret: a truncated text, or another
// job's, is recognized, and without the secret no process can send ranks anywhere. The nonce belongs to one rendezvous,
// so two jobs of the same name cannot be merged (the server's job id contains it).
//
// Values and pure functions. Internal to comm.
#pragma once

#include <tutti/comm/bootstrap/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  std::string nonce;
  std::vector<std::string> addresses;  // numbers, best first
  std::uint16_t port = 0;
};

/// Of this process, now.
Announcement own_announcement(const World& world, std::vector<std::string> addresses, std::uint16_t port);

/// `separator` ends each line: '\n' in a file, ';' where a text must be one word. At most a few hundred bytes.
std::string encode_announcement(const Announcement& announcement, std::string_view job_secret, char separator = '\n');

enum class Reading { Whole, HalfWritten, OtherSecret, Foreign };

/// Whole: `result` is filled. OtherSecret: filled, but not to be trusted. Foreign: these are no lines of ours.
Reading decode_announcement(std::string_view text, std::string_view job_secret, Announcement& result,
                            char separator = '\n');

/// Where rank 0 publishes an announcement, for all ranks to find. Thread-safety: none.
class AnnouncementBoard {
 public:
  virtual ~AnnouncementBoard() = default;

  /// For rank 0; replaces what an earlier rendezvous has left there. Throws System, and as the board.
  virtual void publish(const Announcement& announcement) = 0;

  struct Found {
    Reading reading = Reading::HalfWritten;
    Announcement announcement;
    std::string begins_with;  // of foreign content, for error texts
  };
  /// Nothing while there is none. Throws System if the board cannot be read.
  virtual std::optional<Found> look() const = 0;

  /// Removes the announcement with this nonce, if it is there. Any rank may do so. Never throws.
  virtual void withdraw(const std::string& nonce) noexcept = 0;

  virtual std::string where() const = 0;   // for error texts
  virtual std::string advice() const = 0;  // what to do if rank 0's announcement does not appear
};

/// "rank 0 of job 'slurm-7.0' (pid 71 on host a, 12 s ago)".
std::string text_of(const Announcement& announcement);

/// Whether the process that announced is known to run: it must be one of this host.
bool is_running_here(const Announcement& announcement);
/// Whether it is known to have ended.
bool has_ended_here(const Announcement& announcement);

}  // namespace tutti::comm
