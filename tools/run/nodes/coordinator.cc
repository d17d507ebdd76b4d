#include <arpa/inet.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/nodes/conductor.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/round_stores.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <thread>
#include <utility>

namespace tutti::tools {
namespace {

using comm::Deadline;
using std::chrono::milliseconds;

constexpr milliseconds kLook{100};         // between two looks at the heartbeats, at least
constexpr milliseconds kOwnCall{60'000};   // a call to the server in this very process
constexpr milliseconds kFarewell{1500};    // for the agents to read the last verdict
constexpr char kAgreementVersion[] = "8";  // of the messages between agents

}  // namespace

class Coordinator::Impl final : public Conductor::Outside {
 public:
  explicit Impl(const CoordinatorOptions& options)
      : options_(options),
        server_(std::make_unique<comm::TcpStoreServer>(comm::TcpStoreServerOptions{.bind_address = options.bind_address,
                                                                                   .port = options.nodes.port,
                                                                                   .job_id = kControlJob,
                                                                                   .job_secret = options.job_secret})),
        port_(server_->port()),
        conductor_(options, *this, Conductor::Clock::now()) {
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() override {
    stopping_ = true;
    thread_.join();
    store_.reset();
    if (server_) server_->wait_until_unused(Deadline::after(kFarewell));
  }

  std::uint16_t port() const { return port_; }

  void post(int to, const Message& message) override {
    const Letter letter{to, RankEnd::Clock::now(), message};
    store_->set(log_key(next_entry_), encode(letter), own_deadline());
    next_entry_ = store_->add(kLogCount, 1, own_deadline());
  }

  ElasticJob* new_stores(RoundPlan& plan, ElasticJob::Say say) override {
    stores_.reset();
    stores_.emplace(options_.launch, options_.bind_address, std::uint16_t{0}, options_.job_secret, plan,
                    std::move(say));
    return stores_->elastic();
  }

 private:
  // What is known of an agent's heart.
  struct Heart {
    std::string beat;
    PatientTimer timer;
  };

  static Deadline own_deadline() { return Deadline::after(kOwnCall); }

  void run() {
    try {
      const std::string& bound = options_.bind_address;
      const comm::TcpStoreOptions own{.host = bound.empty() ? comm::loopback_address() : bound,
                                      .port = port_,
                                      .job_id = kControlJob,
                                      .job_secret = options_.job_secret};
      store_ = std::make_unique<comm::TcpStore>(own, own_deadline());
      while (!stopping_) step();  // also when all is over: agents that come late are told
    } catch (const std::exception& error) {
      // Without its own store nothing can be said to anybody; the agents are to find that they have lost it.
      std::cerr << "tutti run: the coordinator has failed: " << error.what() << "\n";
      store_.reset();
      server_.reset();
    }
  }

  void step() {
    try {
      read_mail();
      watch_hearts();
      if (!conductor_.finished()) conductor_.tick(Conductor::Clock::now());
    } catch (const std::exception& error) {
      conductor_.give_up(std::string("the coordinator has failed: ") + error.what());
    }
  }

  // One message, or a little while without one.
  void read_mail() {
    std::string bytes;
    try {
      bytes = store_->get(mail_key(next_slot_), Deadline::after(kLook));
    } catch (const comm::Error& error) {
      if (error.code() == comm::ErrorCode::Timeout) return;
      throw;
    }
    store_->add(kMailHint, 1, own_deadline());
    ++next_slot_;
    const Letter letter = decode(bytes, RankEnd::Clock::now());
    conductor_.message(letter.agent, letter.message, Conductor::Clock::now());
  }

  void watch_hearts() {
    const auto now = Conductor::Clock::now();
    if (now < next_look_) return;
    next_look_ = now + kLook;
    std::vector<int> agents;
    std::vector<std::string> keys;
    for (const auto& [agent, hello] : conductor_.agents()) {
      agents.push_back(agent);
      keys.push_back(beat_key(agent));
    }
    if (agents.empty()) return;
    const std::vector<std::string> beats = store_->multi_get(keys, own_deadline());
    const std::string gone = gone_agents();
    for (std::size_t i = 0; i < agents.size(); ++i) listen_to(agents[i], beats[i], gone, now);
  }

  // "3 17": those whose connection has broken without a goodbye.
  std::string gone_agents() {
    const std::vector<std::string> key{comm::kLostRanksKey};
    try {
      return store_->check(key, own_deadline()) ? " " + store_->get(key[0], Deadline::after(kLook)) + " " : "";
    } catch (const comm::Error& error) {
      if (error.code() == comm::ErrorCode::Timeout) return "";  // they have just come back
      throw;
    }
  }

  void listen_to(int agent, const std::string& beat, const std::string& gone, Conductor::Clock::time_point now) {
    const auto heart = hearts_.try_emplace(agent, Heart{"", PatientTimer(kLook, now)}).first;
    heart->second.timer.look(now, std::exchange(heart->second.beat, beat) != beat);
    if (gone.find(" " + std::to_string(agent) + " ") != std::string::npos) {
      conductor_.lost(agent, "its agent is gone (killed, or its host is down)", now, now);
      return;
    }
    const auto silence = heart->second.timer.silence();
    if (silence < options_.nodes.silence) return;
    conductor_.lost(agent,
                    comm::format("nothing was heard of it for %.1f s (frozen, or its host is cut off)",
                                 std::chrono::duration<double>(silence).count()),
                    now - silence, now);
  }

  const CoordinatorOptions options_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  const std::uint16_t port_;
  std::unique_ptr<comm::TcpStore> store_;
  std::optional<RoundStores> stores_;
  Conductor conductor_;
  std::map<int, Heart> hearts_;
  Conductor::Clock::time_point next_look_{};
  long next_slot_ = 0;
  long next_entry_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // the last member: it uses the others
};

Coordinator::Coordinator(const CoordinatorOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Coordinator::~Coordinator() = default;

std::uint16_t Coordinator::port() const { return impl_->port(); }

// The program's arguments may differ from node to node, its name may not.
std::vector<std::pair<std::string, std::string>> agreed_settings(const LaunchOptions& options) {
  const NodeOptions& nodes = *options.nodes;
  const std::string most = nodes.fixed_size() ? "" : ":" + std::to_string(nodes.max_nodes);
  return {
      {"tutti's version of this conversation", kAgreementVersion},
      {"--rdzv-id", nodes.run_id},
      {"--nnodes", std::to_string(nodes.min_nodes) + most},
      {"the rendezvous", nodes.is_static() ? "static (--node-rank)" : "dynamic (--rdzv-endpoint)"},
      {"--max-restarts", std::to_string(options.max_restarts)},
      {"--no-store", options.store ? "not given" : "given"},
      {"--elastic", options.elastic ? "given" : "not given"},
      {"the program", std::filesystem::path(options.command.front()).filename().string()},
  };
}

std::string coordinator_bind_address(const std::string& host) {
  in6_addr number{};
  const bool is_number =
      ::inet_pton(AF_INET, host.c_str(), &number) == 1 || ::inet_pton(AF_INET6, host.c_str(), &number) == 1;
  if (is_number || host == "localhost") return host;
  std::string error;
  const std::vector<comm::Endpoint> found = comm::resolve(host, 0, comm::ResolveFor::Binding, error);
  const auto is_loopback = [](const comm::Endpoint& endpoint) { return comm::is_loopback_address(endpoint.host()); };
  const bool only_loopback = !found.empty() && std::all_of(found.begin(), found.end(), is_loopback);
  return only_loopback ? "" : host;
}

}  // namespace tutti::tools
