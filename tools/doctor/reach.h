// Can the ranks of a job connect to each other, between the very hosts and addresses they run on?
//
// Every rank opens a port (Answerer) and calls those of others (check_reach). Forming a group would find the same, but
// stop at the first closed door; this goes on and names each.
#pragma once

#include <tutti/comm/wire/socket.h>
#include <tutti/tools/doctor/finding.h>
#include <tutti/tools/doctor/rank_card.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace tutti::doctor {

/// Listens on a free port of `address` and answers every caller with `token`, in a thread of its own, until destroyed.
/// The constructor throws comm::Error if the port cannot be opened.
class Answerer {
 public:
  Answerer(const std::string& address, std::string token);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void answer();

  const std::string token_;
  comm::Socket listener_;
  comm::Socket stop_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// Whom rank `caller` calls: everybody in worlds up to 16 ranks; else the next rank, and for a host's lowest rank those
/// of the other hosts.
std::vector<int> whom_to_call(const std::vector<RankCard>& cards, int caller);

/// Calls them, one after the other. A failure for each that is not reached within `patience` or is somebody else; one
/// finding that all is well if there is none. After four failures it gives up on the rest, and says so.
Findings check_reach(const std::vector<RankCard>& cards, int caller, std::chrono::milliseconds patience);

}  // namespace tutti::doctor
