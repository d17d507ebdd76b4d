// Latency, bandwidth and clocks between ranks of a group.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/doctor/finding.h>
#include <tutti/tools/doctor/reach.h>

#include <vector>

namespace tutti::doctor {

struct Link {
  int first = 0, second = 0;  // ranks
  bool between_hosts = false;
  double latency_us = 0;  // one way: half of a round trip of 8 bytes, the median
  double gb_per_s = 0;    // from first to second
};

/// The pairs that stand for all: the first two ranks of each host, and neighbouring hosts' lowest ranks, in a ring.
std::vector<Link> choose_links(const std::vector<RankCard>& cards);

/// Collective. Measures them, one after the other; rank 0 gets the figures, others an empty list.
std::vector<Link> measure_links(comm::ProcessGroup& group, std::vector<Link> links);

/// Collective. Each rank's wall clock minus rank 0's in seconds, of the lowest rank of each host; on rank 0, else
/// empty.
std::vector<std::pair<int, double>> clock_offsets(comm::ProcessGroup& group, const std::vector<int>& leaders);

/// What the figures mean: one finding for each class of pairs, a warning for each that is far from its class.
Findings judge_links(const std::vector<Link>& links, const std::vector<RankCard>& cards);
Findings judge_clocks(const std::vector<std::pair<int, double>>& offsets, const std::vector<RankCard>& cards);

}  // namespace tutti::doctor
