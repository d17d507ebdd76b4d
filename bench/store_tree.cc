// Virtual ranks exchange their addresses through a tree of stores. Run: build/release/bin/store_tree RANKS FAN_OUT
//
// A store is the server's own StoreService, fed with the bytes of the store protocol. Its clients do what
// exchange_addresses() does at one store. The last client of a store below the root takes its lines to the parent, and
// brings back the whole table. The simulator's network counts the messages. Prints the table's bytes, how many ranks
// have it and the seconds; then for each store, the root first: clients, bytes held, messages and bytes got and sent.
#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/process_group_impl.h>
#include <tutti/comm/store/store_service.h>
#include <tutti/comm/transport/shm/join.h>

#include <cstdio>

namespace {

using namespace tutti::comm;

/// The messages as schedules: the first nodes are the ranks, the others the stores.
struct Messages {
  /// A rank does one thing after the other; a store receives in order, and answers what it has received last.
  void add(std::size_t node, Step step) {
    std::vector<Step>& steps = schedules[node].steps;
    if (!steps.empty()) step.after = {last[node]};
    if (node < ranks || receives(step)) last[node] = static_cast<std::uint32_t>(steps.size());
    steps.push_back(std::move(step));
  }
  void pass(std::size_t from, std::size_t to, std::size_t bytes) {
    add(from, {Step::Kind::Send, static_cast<int>(to), Slice{.count = bytes}, {}, false, {}});
    add(to, {Step::Kind::Recv, static_cast<int>(from), {}, Slice{.count = bytes}, false, {}});
  }

  const std::size_t ranks;
  std::vector<Schedule> schedules{ranks};
  std::vector<std::uint32_t> last = std::vector<std::uint32_t>(ranks);  // the step that a node's next one comes after
  std::vector<std::array<std::size_t, 2>> stores = {};                  // clients, and bytes held
};

std::string line_of(std::size_t rank) {
  static const auto kSame = std::pair(host_identity(), settings_to_agree({}));
  RankAddress address;
  std::tie(address.identity, address.settings) = kSame;
  address.endpoints = {"10.0.0.1:" + std::to_string(10'000 + rank % 50'000)};
  address.host = address.pid = std::to_string(10'000 + rank);
  return to_line(address) + "\n";
}

class VirtualStore {
 public:
  /// Of the ranks [first, first + count). A client is a rank, or the last one of a store below.
  VirtualStore(Messages& messages, std::size_t first, std::size_t count, std::size_t fan_out)
      : messages_(messages), node_(messages.schedules.size()) {
    messages.schedules.emplace_back();
    messages.last.push_back(0);
    messages.stores.push_back({});
    std::size_t share = 1;
    while (share * fan_out < count) share *= fan_out;
    for (std::size_t at = first; at < first + count; at += share) {
      const std::size_t below = std::min(share, first + count - at);
      clients_.push_back({at + below - 1, nullptr});
      if (share > 1) clients_.back().second = std::make_unique<VirtualStore>(messages, at, below, fan_out);
    }
  }

  /// The lines of its ranks, as the last client reads them. All others wait for the table.
  std::string gather() {
    std::vector<std::string> keys;
    for (const auto& [rank, below] : clients_) {
      service_.client_joined(rank, {}, "");
      keys.push_back("world/address/" + std::to_string(keys.size()));
      ask(rank, StoreOp::Set, {0, {keys.back(), below ? below->gather() : line_of(rank)}});
    }
    for (const auto& client : clients_) ask(client.first, StoreOp::Add, {1, {"world/arrived"}});
    for (std::size_t i = 0; i + 1 < clients_.size(); ++i) ask(clients_[i].first, StoreOp::Wait, {0, {kTable}});
    ask(clients_.back().first, StoreOp::Get, {0, {keys.begin(), keys.end()}});
    std::string lines;
    for (const std::string_view line : answer_) lines += line;
    return lines;
  }

  /// The last client brings the table, and every client gets it. Returns how many ranks have one with this hash.
  std::size_t share(const std::string& table, std::size_t hash) {
    ask(clients_.back().first, StoreOp::Set, {0, {kTable, table}});
    ask(clients_.back().first, StoreOp::Wait, {0, {kTable}});
    messages_.stores[node_ - messages_.ranks] = {clients_.size(), service_.map().bytes()};
    std::size_t right = 0;
    std::string_view seen;  // an answer shows the store's own bytes: one look at them is enough
    for (auto& [rank, below] : clients_) {
      ask(rank, StoreOp::Get, {0, {kTable}});
      if (!below && answer_[0].data() != seen.data() && std::hash<std::string_view>()(seen = answer_[0]) != hash) break;
      right += below ? below->share(std::string(answer_[0]), hash) : answer_[0].size() == seen.size() ? 1 : 0;
      below.reset();
    }
    return right;
  }

 private:
  static constexpr char kTable[] = "world/addresses/0";

  void ask(std::size_t rank, StoreOp op, const StoreBody& body) {
    std::string message;
    append_store_message(message, static_cast<std::uint8_t>(op), 0, body);
    messages_.pass(rank, node_, message.size());
    const auto bytes = std::as_bytes(std::span(message));
    service_.handle(rank, decode_store_header(bytes.first<kStoreHeaderBytes>()), bytes.subspan(kStoreHeaderBytes));
  }

  /// Counts an answer's bytes without a copy of its strings.
  void answer(std::size_t rank, StoreStatus status, const StoreBody& body) {
    if (status != StoreStatus::Ok) throw Error(ErrorCode::Protocol, "a store says: " + std::string(body.strings.at(0)));
    std::string message;
    append_store_message(message, 0, 0, {0, std::vector<std::string_view>(body.strings.size())});
    std::size_t bytes = message.size();
    for (const std::string_view text : body.strings) bytes += text.size();
    messages_.pass(node_, rank, bytes);
    answer_ = body.strings;
  }

  Messages& messages_;
  const std::size_t node_;
  std::vector<std::pair<std::size_t, std::unique_ptr<VirtualStore>>> clients_ = {};
  std::vector<std::string_view> answer_ = {};  // valid until the store changes
  StoreService service_{[this](auto rank, const auto&, auto status, const auto& body) { answer(rank, status, body); }};
};

void run(std::size_t ranks, std::size_t fan_out) {
  if (ranks < 2 || fan_out < 2) throw Error(ErrorCode::InvalidArgument, "both numbers must be 2 or more");
  std::string table;
  for (std::size_t rank = 0; rank < ranks; ++rank) table += line_of(rank);
  Messages messages{.ranks = ranks};
  VirtualStore root(messages, 0, ranks, fan_out);
  const std::size_t right = root.share(root.gather(), std::hash<std::string>()(table));
  std::vector<std::array<std::size_t, 4>> traffic(messages.schedules.size());  // messages and bytes, got and sent
  const Simulation simulation = simulate(messages.schedules, 1, NetworkModel{}, [&](const Transfer& passed) {
    for (std::size_t way : {0, 2}) {
      auto& ends = traffic[static_cast<std::size_t>(way == 0 ? passed.to : passed.from)];
      ends[way] += 1, ends[way + 1] += passed.bytes;
    }
  });
  std::printf("%zu %zu %.6f\n", table.size(), right, simulation.finish());
  for (std::size_t store = 0; store < messages.stores.size(); ++store) {
    const auto& [got, in, sent, out] = traffic[ranks + store];
    std::printf("%zu %zu %zu %zu %zu %zu\n", messages.stores[store][0], messages.stores[store][1], got, in, sent, out);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("give the number of ranks and the fan-out: store_tree 1000 64");
  run(std::strtoul(argv[1], nullptr, 10), std::strtoul(argv[2], nullptr, 10));
} catch (const std::exception& error) {
  std::fprintf(stderr, "store_tree: %s\n", error.what());
  return 1;
}
