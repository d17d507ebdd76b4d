// What rank 0 publishes about the rendezvous: the addresses of its store server, and its process.
//
// Twelve fields that end in ';', the last of them an HMAC-SHA256 of the others by the job secret: a truncated text, or
// another job's, is recognized, and without the secret no process can send ranks anywhere. The nonce belongs to one
// rendezvous, so two jobs of the same name cannot be merged (the server's job id contains it).
//
// Values and pure functions. Internal to comm.
#pragma once

#include <tutti/comm/bootstrap/world.h>

#include <cstdint>
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

/// One word, of at most a few hundred bytes.
std::string encode_announcement(const Announcement& announcement, std::string_view job_secret);

enum class Reading { Whole, HalfWritten, OtherSecret, Foreign };

/// Whole: `result` is filled. OtherSecret: filled, but not to be trusted. Foreign: this is no text of ours.
Reading decode_announcement(std::string_view text, std::string_view job_secret, Announcement& result);

/// "rank 0 of job 'slurm-7.0' (pid 71 on host a, 12 s ago)".
std::string text_of(const Announcement& announcement);

/// Whether the process that announced is known to run: it must be one of this host.
bool is_running_here(const Announcement& announcement);

}  // namespace tutti::comm
