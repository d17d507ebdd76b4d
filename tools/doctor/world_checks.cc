#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/tools/doctor/checks.h>
#include <tutti/tools/doctor/reach.h>

#include <algorithm>
#include <set>

namespace tutti::doctor {
namespace {

using comm::Deadline;

constexpr std::chrono::milliseconds kMostPatience{2000};  // with one call; a few may fail, in the time of one step
constexpr char kBetween[] = "between the ranks";
constexpr char kVerdictKey[] = "doctor/verdict";

std::string findings_key(int rank) { return "doctor/findings/" + std::to_string(rank); }

/// Of a host's own look at the others' names.
Findings check_peer_names(const std::vector<RankCard>& cards, const RankCard& self) {
  Findings findings;
  std::set<std::string> seen{self.host};
  for (const RankCard& card : cards) {
    if (card.identity == self.identity || !seen.insert(card.host).second) continue;
    const LookUp found = look_up(card.host);
    if (!found.addresses.empty()) continue;
    findings.push_back({"names", self.host + " does not know " + card.host + ": " + found.error, Verdict::Warn,
                        "Tutti needs no names; ssh, MPI and PyTorch may: write the hosts of a job into /etc/hosts"});
  }
  return findings;
}

Findings check_addresses(const std::vector<RankCard>& cards, const std::vector<int>& leaders) {
  std::string value;
  bool loopback = false;
  for (const int leader : leaders) {
    const RankCard& card = cards[static_cast<std::size_t>(leader)];
    value += (value.empty() ? "" : "; ") + card.host + " " + card.interface + " " + card.address;
    loopback = loopback || card.address.starts_with("127.") || card.address == "::1";
  }
  if (loopback && leaders.size() > 1)
    return {{"interfaces used", value, Verdict::Fail,
             "a loopback address is of no use to other hosts: set MASTER_ADDR to an address that all can reach"}};
  return {{"interfaces used", value}};
}

void put_host(Findings& findings, const std::string& host) {
  for (Finding& finding : findings)
    if (finding.host.empty()) finding.host = host;
}

void add(Findings& all, Findings part) {
  put_host(part, kBetween);
  all.insert(all.end(), part.begin(), part.end());
}

/// One line for all who reached whom they called, one for each who did not.
void add_reach(Findings& all, const Findings& told) {
  std::size_t fine = 0;
  Findings rest;
  for (const Finding& finding : told) {
    if (finding.what == "connection" && finding.verdict == Verdict::Ok) {
      ++fine;
    } else {
      rest.push_back(finding);
    }
  }
  if (fine > 0) add(all, {{"connections", std::to_string(fine) + " ranks reach all whom they called"}});
  add(all, rest);
}

class Visit {
 public:
  Visit(const comm::World& world, std::chrono::milliseconds timeout)
      : world_(world), timeout_(timeout), begin_(std::chrono::steady_clock::now()) {
    comm::ProcessGroupOptions options{.name = "doctor"};
    options.timeout = timeout;
    group_ = comm::ProcessGroup::connect(world, options);
    RankCard card = own_card(world);
    card.token = comm::new_job_secret().substr(0, 16);
    answerer_ = std::make_unique<Answerer>(card.address, card.token);
    card.port = answerer_->port();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin_;
    formed_ms_ = taken.count();
    cards_ = exchange_cards(*group_->store(), world.world_size, card, soon());
    leaders_ = host_leaders(cards_);
  }

  WorldReport run(const Findings& own) {
    comm::Store& store = *group_->store();
    const RankCard& self = cards_[static_cast<std::size_t>(world_.rank)];
    const bool leads = std::find(leaders_.begin(), leaders_.end(), world_.rank) != leaders_.end();
    Findings told = check_reach(cards_, world_.rank, std::min(kMostPatience, timeout_ / 8));
    if (leads) {
      add(told, check_peer_names(cards_, self));
      put_host(told, kBetween);
      Findings host = own;
      put_host(host, leaders_.size() > 1 ? self.host + " (rank " + std::to_string(self.rank) + ")" : self.host);
      told.insert(told.end(), host.begin(), host.end());
    }
    store.set(findings_key(world_.rank), as_json(told), soon());
    WorldReport report;
    if (world_.rank == 0) report.findings = collect();
    // Connections that a firewall drops would hang here, too; that has been told, and is enough.
    const bool reached = all_reached(report);
    if (reached) group_->barrier();  // over the transport that a job would use
    if (world_.rank == 0) store.set(kVerdictKey, std::string(name(worst(report.findings))), soon());
    const std::string verdict = store.get(kVerdictKey, soon());
    // The goodbye of a group is a collective as well, and would knock at the closed door for minutes.
    if (!reached) group_->abort("some ranks cannot connect to each other");
    report.verdict = verdict == "fail" ? Verdict::Fail : verdict == "warn" ? Verdict::Warn : Verdict::Ok;
    return report;
  }

 private:
  Deadline soon() const { return Deadline::after(timeout_); }

  Findings collect() {
    std::vector<std::string> keys;
    for (int rank = 0; rank < world_.world_size; ++rank) keys.push_back(findings_key(rank));
    Findings hosts, between;
    for (const std::string& text : group_->store()->multi_get(keys, soon()))
      for (const Finding& finding : from_json(text))
        (finding.host.empty() || finding.host == kBetween ? between : hosts).push_back(finding);
    add(hosts, {{"ranks that met",
                 comm::format("%d on %zu host%s, in %.0f ms, over %s", world_.world_size, leaders_.size(),
                              leaders_.size() == 1 ? "" : "s", formed_ms_, group_->transport_name().c_str())}});
    add(hosts, check_addresses(cards_, leaders_));
    add_reach(hosts, between);
    return hosts;
  }

  bool all_reached(const WorldReport& report) {
    comm::Store& store = *group_->store();
    const std::string key = "doctor/reached";
    if (world_.rank == 0) {
      const bool failed = std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
        return finding.what == "connection" && finding.verdict == Verdict::Fail;
      });
      store.set(key, failed ? "no" : "yes", soon());
    }
    return store.get(key, soon()) == "yes";
  }

  const comm::World& world_;
  const std::chrono::milliseconds timeout_;  // of each step, in which the slowest rank is waited for
  const std::chrono::steady_clock::time_point begin_;
  std::unique_ptr<comm::ProcessGroup> group_;
  std::unique_ptr<Answerer> answerer_;
  double formed_ms_ = 0;
  std::vector<RankCard> cards_;
  std::vector<int> leaders_;
};

}  // namespace

WorldReport check_world(const comm::World& world, const Findings& own, std::chrono::milliseconds timeout) {
  try {
    return Visit(world, timeout).run(own);
  } catch (const comm::Error& error) {
    const std::string who = "rank " + std::to_string(world.rank);
    return {{{"meeting", who + ": " + error.what(), Verdict::Fail,
              "until the ranks meet nothing between them can be looked at; see above what each host says of itself",
              kBetween}},
            Verdict::Fail};
  }
}

}  // namespace tutti::doctor
