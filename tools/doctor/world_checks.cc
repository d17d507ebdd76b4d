#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/doctor/checks.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tutti::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankCard, rank, host, identity, address, interface, port, token)

namespace {

using comm::Deadline;

std::string card_key(int rank) { return "doctor/card/" + std::to_string(rank); }

/// This end of the way to `host`; "" if there is none.
std::string way_to(const std::string& host) {
  std::string error;
  for (const comm::Endpoint& endpoint : comm::resolve(host, 9, comm::ResolveFor::Connecting, error)) {
    const std::string source = comm::route_source(endpoint.host());
    if (!source.empty()) return source;
  }
  return {};
}

constexpr std::size_t kAllCallAll = 16;
constexpr std::size_t kEnoughFailures = 4;  // each may take all of the caller's patience

std::string fix_for(const comm::Error& error) {
  if (error.code() == comm::ErrorCode::Timeout)
    return "a firewall on the way drops it: let the hosts of a job reach each other's ports from 1024 up (firewall-cmd "
           "--zone=trusted --add-source=<their network>, or ask who runs the network)";
  return "a firewall there refuses it, or there is no way: open the ports from 1024 up between these hosts, or choose "
         "another interface (--iface, TUTTI_IFACE)";
}

Finding report(const RankCard& caller, const RankCard& callee, const std::string& value, const std::string& fix) {
  return {"connection",
          described(caller) + " to " + described(callee) + " port " + std::to_string(callee.port) + ": " + value,
          Verdict::Fail, fix};
}

constexpr std::chrono::milliseconds kMostPatience{2000};  // with one call; a few may fail, in the time of one step
constexpr char kBetween[] = "between the ranks";
constexpr char kVerdictKey[] = "doctor/verdict";

std::string findings_key(int rank) { return "doctor/findings/" + std::to_string(rank); }

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
void add_reach(Findings& all, Findings told) {
  const std::size_t fine = std::erase_if(
      told, [](const Finding& finding) { return finding.what == "connection" && finding.verdict == Verdict::Ok; });
  if (fine > 0) add(all, {{"connections", std::to_string(fine) + " ranks reach all whom they called"}});
  add(all, std::move(told));
}

class Visit {
 public:
  Visit(const comm::World& world, std::chrono::milliseconds timeout) : world_(world), timeout_(timeout) {
    const auto begin = std::chrono::steady_clock::now();
    comm::ProcessGroupOptions options{.name = "doctor"};
    options.timeout = timeout;
    group_ = comm::ProcessGroup::connect(world, options);
    RankCard card = own_card(world);
    card.token = comm::new_job_secret().substr(0, 16);
    answerer_ = std::make_unique<Answerer>(card.address, card.token);
    card.port = answerer_->port();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
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
      put_host(told, kBetween);
      Findings host = own;
      put_host(host, leaders_.size() > 1 ? self.host + " (rank " + std::to_string(self.rank) + ")" : self.host);
      told.insert(told.end(), host.begin(), host.end());
    }
    store.set(findings_key(world_.rank), as_json(told), soon());
    WorldReport report;
    if (world_.rank == 0) {
      report.findings = collect();
      const bool closed = std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
        return finding.what == "connection" && finding.verdict == Verdict::Fail;
      });
      store.set(kVerdictKey, as_json({{closed ? "closed" : "open", "", worst(report.findings)}}), soon());
    }
    const Finding verdict = from_json(store.get(kVerdictKey, soon())).at(0);
    report.verdict = verdict.verdict;
    if (verdict.what == "open") {
      group_->barrier();  // over the transport that a job would use
    } else {
      // Connections that a firewall drops would hang here, too, and the goodbye of a group, a collective as well, would
      // knock at the closed door for minutes.
      group_->abort("some ranks cannot connect to each other");
    }
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
    add_reach(hosts, std::move(between));
    return hosts;
  }

  const comm::World& world_;
  const std::chrono::milliseconds timeout_;  // of each step, in which the slowest rank is waited for
  std::unique_ptr<comm::ProcessGroup> group_;
  std::unique_ptr<Answerer> answerer_;
  double formed_ms_ = 0;
  std::vector<RankCard> cards_;
  std::vector<int> leaders_;
};

}  // namespace

RankCard own_card(const comm::World& world) {
  RankCard card{world.rank, comm::host_name(), comm::host_identity(), ""};
  const bool several_hosts = world.local_world_size < world.world_size;
  comm::PublishOptions options;
  if (!world.master_addr.empty()) options.towards_store = way_to(world.master_addr);
  const comm::ChosenAddress best = comm::own_addresses(several_hosts, options).chosen.front();
  card.address = best.address;
  card.interface = best.interface;
  return card;
}

std::vector<RankCard> exchange_cards(comm::Store& store, int world_size, const RankCard& own, comm::Deadline deadline) {
  const nlohmann::json written = own;
  store.set(card_key(own.rank), written.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), deadline);
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(card_key(rank));
  std::vector<RankCard> cards;
  for (const std::string& text : store.multi_get(keys, deadline)) cards.push_back(nlohmann::json::parse(text));
  return cards;
}

std::vector<int> host_leaders(const std::vector<RankCard>& cards) {
  std::set<std::string> seen;
  std::vector<int> leaders;
  for (const RankCard& card : cards)
    if (seen.insert(card.identity).second) leaders.push_back(card.rank);
  return leaders;
}

std::string described(const RankCard& card) {
  return "rank " + std::to_string(card.rank) + " (" + card.host + ", " + card.address + ")";
}

Answerer::Answerer(const std::string& address, std::string token)
    : token_(std::move(token)),
      listener_(comm::listen_on(address, 0)),
      port_(comm::local_endpoint(listener_.get()).port()),
      thread_([this] { answer(); }) {}

Answerer::~Answerer() {
  ::shutdown(listener_.get(), SHUT_RDWR);  // ends the poll
  thread_.join();
}

void Answerer::answer() {
  for (;;) {
    pollfd entry{listener_.get(), POLLIN, 0};
    if (::poll(&entry, 1, -1) < 0) continue;
    if ((entry.revents & POLLHUP) != 0) return;
    const comm::Socket caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (caller.get() >= 0) static_cast<void>(::send(caller.get(), token_.data(), token_.size(), MSG_NOSIGNAL));
  }
}

std::string call(const std::string& address, std::uint16_t port, comm::Deadline deadline) {
  std::string error;
  const auto endpoints = comm::resolve(address, port, comm::ResolveFor::Connecting, error);
  if (endpoints.empty()) throw comm::Error(comm::ErrorCode::System, error);
  const comm::Socket socket(::socket(endpoints[0].family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) comm::throw_errno("open a socket", errno);
  if (::connect(socket.get(), endpoints[0].address(), endpoints[0].length) != 0 && errno != EINPROGRESS)
    throw comm::Error(comm::ErrorCode::System, comm::errno_text(errno));
  std::string answer;
  for (;;) {
    if (!comm::poll_until(socket.get(), POLLIN, deadline)) throw comm::Error(comm::ErrorCode::Timeout, "no answer");
    char bytes[64];
    const ssize_t count = ::recv(socket.get(), bytes, sizeof bytes, 0);
    if (count < 0) throw comm::Error(comm::ErrorCode::System, comm::errno_text(errno));
    if (count == 0) return answer;
    answer.append(bytes, static_cast<std::size_t>(count));
    if (answer.size() > 4096) return answer;
  }
}

std::vector<int> whom_to_call(const std::vector<RankCard>& cards, int caller) {
  std::vector<int> callees;
  const std::vector<int> leaders = host_leaders(cards);
  const auto leads = [&](int rank) { return std::find(leaders.begin(), leaders.end(), rank) != leaders.end(); };
  const int world_size = static_cast<int>(cards.size());
  for (int rank = 0; rank < world_size; ++rank) {
    const bool next = rank == (caller + 1) % world_size;
    if (rank != caller && (cards.size() <= kAllCallAll || next || (leads(caller) && leads(rank))))
      callees.push_back(rank);
  }
  return callees;
}

Findings check_reach(const std::vector<RankCard>& cards, int caller, std::chrono::milliseconds patience) {
  const RankCard& self = cards[static_cast<std::size_t>(caller)];
  const std::vector<int> callees = whom_to_call(cards, caller);
  Findings findings;
  for (std::size_t i = 0; i < callees.size(); ++i) {
    if (findings.size() == kEnoughFailures) {
      findings.push_back(
          {"connection", described(self) + " to " + std::to_string(callees.size() - i) + " more: not tried after these",
           Verdict::Warn, "mend those first"});
      break;
    }
    const RankCard& callee = cards[static_cast<std::size_t>(callees[i])];
    try {
      const std::string answer = call(callee.address, callee.port, comm::Deadline::after(patience));
      if (answer != callee.token)
        findings.push_back(
            report(self, callee, "somebody else answers there",
                   "the address " + callee.address +
                       " exists on more than one host (a bridge, a "
                       "copied virtual machine): choose an interface with addresses of its own (--iface)"));
    } catch (const comm::Error& error) {
      findings.push_back(report(self, callee, error.what(), fix_for(error)));
    }
  }
  if (findings.empty())
    findings.push_back({"connection", described(self) + " reaches " + std::to_string(callees.size()) + " others"});
  return findings;
}

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
