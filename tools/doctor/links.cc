#include <tutti/comm/base/format.h>
#include <tutti/tools/doctor/links.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <span>

namespace tutti::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 10, kRoundTrips = 100;
constexpr std::size_t kProbeBytes = std::size_t{256} << 10, kBulkBytes = std::size_t{4} << 20;
constexpr int kBulks = 4;
constexpr double kProbeSeconds = 0.05;  // a link that takes longer for the probe is judged by it
constexpr int kClockRounds = 8;
constexpr double kSlowBetweenHostsUs = 1000;
constexpr double kSlowBetweenHostsGbPerS = 0.1;  // less than a 1 Gbit/s link carries
// An outlier is told from a class of three pairs or more. Within a host others' load shows as well as hardware does.
constexpr std::size_t kClassOfPairs = 3;
constexpr double kFarBetweenHosts = 0.5, kFarWithinHost = 0.25;
constexpr double kClockSeconds = 0.1;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <typename T>
T median(std::vector<T> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double measure_latency(comm::ProcessGroup& group, int peer, bool first) {
  std::array<double, 1> word{};
  const std::span<double> span(word);
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + kRoundTrips; ++i) {
    const auto begin = Clock::now();
    if (first) group.send(span, peer);
    group.recv(span, peer);
    if (!first) group.send(span, peer);
    if (i >= kWarmUps) times.push_back(seconds_since(begin));
  }
  return 1e6 * median(times) / 2;
}

/// Sends `data` from the first rank to the second; the seconds until its receipt is back.
double time_transfer(comm::ProcessGroup& group, int peer, bool first, std::span<float> data) {
  std::array<float, 1> receipt{};
  const auto begin = Clock::now();
  if (first) {
    group.send(data, peer);
    group.recv(std::span<float>(receipt), peer);
  } else {
    group.recv(data, peer);
    group.send(std::span<float>(receipt), peer);
  }
  return seconds_since(begin);
}

double measure_bandwidth(comm::ProcessGroup& group, int peer, bool first) {
  std::vector<float> bulk(kBulkBytes / sizeof(float));
  const std::span<float> all(bulk);
  const double probe = time_transfer(group, peer, first, all.first(kProbeBytes / sizeof(float)));
  std::array<double, 1> slow{probe > kProbeSeconds ? 1.0 : 0.0};  // by the clock of the first
  if (first) {
    group.send(std::span<double>(slow), peer);
  } else {
    group.recv(std::span<double>(slow), peer);
  }
  double best = static_cast<double>(kProbeBytes) / probe;
  for (int i = 0; i < kBulks && slow[0] == 0.0; ++i)
    best = std::max(best, static_cast<double>(kBulkBytes) / time_transfer(group, peer, first, all));
  return best / 1e9;
}

std::string figures(double latency_us, double gb_per_s) {
  return comm::format("%.1f us, %.2f GB/s", latency_us, gb_per_s);
}

std::string pair_text(const Link& link, const std::vector<RankCard>& cards) {
  return described(cards[static_cast<std::size_t>(link.first)]) + " and " +
         described(cards[static_cast<std::size_t>(link.second)]);
}

void judge_class(const std::vector<Link>& links, bool between_hosts, const std::vector<RankCard>& cards,
                 Findings& findings) {
  std::vector<double> latencies, bandwidths;
  for (const Link& link : links) {
    if (link.between_hosts != between_hosts) continue;
    latencies.push_back(link.latency_us);
    bandwidths.push_back(link.gb_per_s);
  }
  if (latencies.empty()) return;
  const std::string what = between_hosts ? "links between hosts" : "links within a host";
  const double latency = median(latencies), bandwidth = median(bandwidths);
  const bool slow = between_hosts && (latency > kSlowBetweenHostsUs || bandwidth < kSlowBetweenHostsGbPerS);
  const std::string count = latencies.size() == 1 ? "" : " (median of " + std::to_string(latencies.size()) + " pairs)";
  findings.push_back({what, figures(latency, bandwidth) + count, slow ? Verdict::Warn : Verdict::Ok,
                      slow ? "jobs run, slowly: is this the network for it? --iface chooses another interface" : ""});
  if (latencies.size() < kClassOfPairs) return;
  for (const Link& link : links) {
    const double least = (between_hosts ? kFarBetweenHosts : kFarWithinHost) * bandwidth;
    if (link.between_hosts != between_hosts || link.gb_per_s > least) continue;
    findings.push_back({what, pair_text(link, cards) + ": " + figures(link.latency_us, link.gb_per_s), Verdict::Warn,
                        "far slower than the others: look at this host's cable, interface and load"});
  }
}

}  // namespace

std::vector<Link> choose_links(const std::vector<RankCard>& cards) {
  std::map<std::string, std::vector<int>> hosts;
  for (const RankCard& card : cards) hosts[card.identity].push_back(card.rank);
  const std::vector<int> leaders = host_leaders(cards);
  std::vector<Link> links;
  for (const int leader : leaders) {
    const auto& ranks = hosts[cards[static_cast<std::size_t>(leader)].identity];
    if (ranks.size() > 1) links.push_back({ranks[0], ranks[1], false});
  }
  const std::size_t around = leaders.size() > 2 ? leaders.size() : leaders.size() - 1;
  for (std::size_t i = 0; i < around; ++i) links.push_back({leaders[i], leaders[(i + 1) % leaders.size()], true});
  return links;
}

std::vector<Link> measure_links(comm::ProcessGroup& group, std::vector<Link> links) {
  std::vector<double> figures(2 * links.size(), 0.0);
  for (std::size_t i = 0; i < links.size(); ++i) {
    const Link& link = links[i];
    const bool first = group.rank() == link.first;
    if (first || group.rank() == link.second) {
      const int peer = first ? link.second : link.first;
      const double latency = measure_latency(group, peer, first);
      const double bandwidth = measure_bandwidth(group, peer, first);
      if (first) {
        figures[2 * i] = latency;
        figures[2 * i + 1] = bandwidth;
      }
    }
    group.barrier();  // one pair at a time
  }
  group.all_reduce(std::span<double>(figures));
  if (group.rank() != 0) return {};
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i].latency_us = figures[2 * i];
    links[i].gb_per_s = figures[2 * i + 1];
  }
  return links;
}

std::vector<std::pair<int, double>> clock_offsets(comm::ProcessGroup& group, const std::vector<int>& leaders) {
  std::vector<std::pair<int, double>> offsets;
  std::array<double, 1> word{};
  const std::span<double> span(word);
  for (const int leader : leaders) {
    if (leader == 0 || (group.rank() != 0 && group.rank() != leader)) continue;
    double best_round = 1e9, offset = 0;
    for (int i = 0; i < kClockRounds; ++i) {
      if (group.rank() == leader) {
        group.recv(span, 0);
        word[0] = wall_seconds();
        group.send(span, 0);
        continue;
      }
      const double begin = wall_seconds();
      group.send(span, leader);
      group.recv(span, leader);
      const double end = wall_seconds();
      if (end - begin < best_round) {
        best_round = end - begin;
        offset = word[0] - (begin + end) / 2;
      }
    }
    if (group.rank() == 0) offsets.emplace_back(leader, offset);
  }
  return offsets;
}

Findings judge_links(const std::vector<Link>& links, const std::vector<RankCard>& cards) {
  Findings findings;
  judge_class(links, false, cards, findings);
  judge_class(links, true, cards, findings);
  return findings;
}

Findings judge_clocks(const std::vector<std::pair<int, double>>& offsets, const std::vector<RankCard>& cards) {
  Findings findings;
  double furthest = 0;
  for (const auto& [rank, seconds] : offsets) {
    furthest = std::max(furthest, std::abs(seconds));
    if (std::abs(seconds) < kClockSeconds) continue;
    const std::string value =
        comm::format("%.3f s %s rank 0's", std::abs(seconds), seconds > 0 ? "ahead of" : "behind");
    findings.push_back({"clocks", "of " + described(cards[static_cast<std::size_t>(rank)]) + " " + value, Verdict::Warn,
                        "synchronise them (systemd-timesyncd, chrony): times in logs do not fit together"});
  }
  if (!offsets.empty() && findings.empty()) {
    findings.push_back({"clocks", comm::format("of %zu hosts agree to %.2f ms", offsets.size() + 1, 1e3 * furthest)});
  }
  return findings;
}

}  // namespace tutti::doctor
