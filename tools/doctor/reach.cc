#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/doctor/reach.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tutti::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankCard, rank, host, identity, pid, address, interface, port, token)

namespace {

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

}  // namespace

RankCard own_card(const comm::World& world) {
  RankCard card{world.rank, comm::host_name(), comm::host_identity(), static_cast<int>(::getpid()), ""};
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
      stop_(::eventfd(0, EFD_CLOEXEC)),
      port_(comm::local_endpoint(listener_.get()).port()),
      thread_([this] { answer(); }) {}

Answerer::~Answerer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Answerer::answer() {
  for (;;) {
    pollfd entries[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0) continue;
    if (entries[1].revents != 0) return;
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
  const bool leads = std::find(leaders.begin(), leaders.end(), caller) != leaders.end();
  const int world_size = static_cast<int>(cards.size());
  for (int rank = 0; rank < world_size; ++rank) {
    const bool is_leader = std::find(leaders.begin(), leaders.end(), rank) != leaders.end();
    const bool next = rank == (caller + 1) % world_size;
    if (rank != caller && (cards.size() <= kAllCallAll || next || (leads && is_leader))) callees.push_back(rank);
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

}  // namespace tutti::doctor
