// The rules of jobs on several nodes, without processes: options, messages, who takes part, who is to blame.

#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/run/nodes/conductor.h>
#include <tutti/tools/run/nodes/control_link.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = RankEnd::Clock;

NodeOptions nodes(int least, int most) {
  NodeOptions options;
  options.min_nodes = least;
  options.max_nodes = most;
  return options;
}

Hello hello_of(std::optional<int> node_rank = std::nullopt, int nproc = 2, bool is_coordinators = false) {
  Hello hello;
  hello.is_coordinators = is_coordinators;
  hello.node_rank = node_rank;
  hello.host = "b";
  hello.pid = 77;
  hello.nproc = nproc;
  hello.settings = {{"--rdzv-id", "blue"}};
  return hello;
}

RankEnd ended_rank(int rank, milliseconds at, bool by_signal, int code) {
  RankEnd end;
  end.rank = rank;
  end.pid = 100 + rank;
  end.host = rank < 2 ? "a" : "b";
  end.running = false;
  end.ended = Clock::time_point(at);
  end.by_signal = by_signal;
  end.code = code;
  return end;
}

TEST(NodeOptions, OneNodeIsNoJobOfSeveral) {
  EXPECT_FALSE(parse_node_options({}));
  EXPECT_FALSE(parse_node_options({.nnodes = "1:1", .rdzv_backend = "c10d", .rdzv_endpoint = "localhost:0"}));
}

TEST(NodeOptions, EndpointsAreReadInAllForms) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } cases[] = {{"a", "a", 29400},
               {"a:7", "a", 7},
               {"10.0.0.1:7", "10.0.0.1", 7},
               {"[fe80::1]:7", "fe80::1", 7},
               {"[::1]", "::1", 29400},
               {"fe80::1", "fe80::1", 29400}};
  for (const auto& c : cases) {
    const auto options = parse_node_options({.nnodes = "1:4", .rdzv_endpoint = c.text});
    ASSERT_TRUE(options);
    EXPECT_EQ(options->host, c.host);
    EXPECT_EQ(options->port, c.port);
    EXPECT_FALSE(options->is_static());
  }
  for (const char* wrong : {":7", "a:x", "a:70000", "[::1", "[::1]7", "a:0"})
    EXPECT_THROW(parse_node_options({.nnodes = "2", .rdzv_endpoint = wrong}), std::invalid_argument) << wrong;
}

TEST(NodeOptions, TorchrunsConfIsTaken) {
  const auto options = parse_node_options(
      {.nnodes = "1:4", .rdzv_endpoint = "a", .rdzv_conf = "timeout=1.5,last_call_timeout=2,read_timeout=60"});
  EXPECT_EQ(options->join_timeout, milliseconds(1500));
  EXPECT_EQ(options->last_call, seconds(2));
}

/// "HOST SLOTS, ...", where no slots are said "HOST -".
std::string shown(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts)
    text += (text.empty() ? "" : ", ") + host.host + (host.slots ? " " + std::to_string(*host.slots) : " -");
  return text;
}

TEST(HostList, BothWaysOfWritingItAreRead) {
  EXPECT_EQ(shown(parse_hosts("a:4,user@b,[fe80::1]:2,fe80::2,a")), "a 5, user@b -, fe80::1 2, fe80::2 -");
  EXPECT_EQ(shown(parse_hostfile("# ours\na slots=2 max_slots=9\n\nb:3 # b\nc\nc\n", "file")), "a 2, b 3, c 2");
  for (const char* wrong : {"", "a:", "a:0", "a:x", ",", "-oProxyCommand=x"})
    EXPECT_THROW(parse_hosts(wrong), std::invalid_argument) << wrong;
  EXPECT_THROW(parse_hostfile("a slots=none\n", "file"), std::invalid_argument);
}

TEST(HostList, RemoteCommandsAreSplitAndQuotedAsAShellDoes) {
  EXPECT_EQ(split_rsh("ssh -p 22  -o 'A B'\"c\""), (std::vector<std::string>{"ssh", "-p", "22", "-o", "A Bc"}));
  EXPECT_THROW(split_rsh("ssh '"), std::invalid_argument);
  EXPECT_EQ(comm::shell_quoted("it's"), "'it'\\''s'");
}

/// What the other side reads, whose clock says `there` when this one says `here`. As text that holds every field.
template <typename T>
T passed_on(const T& message, Clock::time_point here = {}, Clock::time_point there = {}) {
  const std::string bytes = encode({3, here, message});
  EXPECT_EQ(encode(decode(bytes, here)), bytes);
  return std::get<T>(decode(bytes, there).message);
}

/// A letter with a change to its JSON.
template <typename T, typename Change>
std::string changed_letter(const T& message, const Change& change) {
  nlohmann::json letter = nlohmann::json::from_cbor(encode({3, {}, message}));
  change(letter.at("message"));
  std::string bytes;
  nlohmann::json::to_cbor(letter, bytes);
  return bytes;
}

TEST(Messages, TextsSurviveAnyBytes) {
  for (const std::string& text :
       {std::string(), std::string("a:b,\"c"), std::string("\0\n\xff\xc3", 4), std::string(1000, 'x')})
    EXPECT_EQ(passed_on(Notice{text}).text, text);
  const Letter letter = decode(encode({3, {}, Report{7}}), {});
  EXPECT_EQ(letter.agent, 3);
  EXPECT_EQ(std::get<Report>(letter.message).round, 7);
}

TEST(Messages, WhatIsNoneIsRefused) {
  std::string whole = encode({3, {}, Notice{"text"}});
  for (const std::string& wrong : {std::string(), std::string("x"), whole.substr(0, whole.size() - 1), whole + "x"})
    EXPECT_THROW(decode(wrong, {}), comm::Error);
  using Json = nlohmann::json;
  for (const std::string& wrong :
       {changed_letter(Report{7}, [](Json& message) { message["kind"] = "joke"; }),
        changed_letter(Report{7}, [](Json& message) { message.erase("round"); }),
        changed_letter(Report{7}, [](Json& message) { message["more"] = 1; }),
        changed_letter(Report{7}, [](Json& message) { message["round"] = "seven"; }),
        changed_letter(Report{7}, [](Json& message) { message["round"] = 7.5; }),
        changed_letter(Report{7}, [](Json& message) { message["round"] = 1LL << 40; }),
        changed_letter(Order{}, [](Json& message) { message["act"] = "dance"; }),
        changed_letter(RoundPlan{}, [](Json& message) { message["store_port"] = 70000; }),
        changed_letter(Hello{}, [](Json& message) { message["reserved_port"] = -1; }),
        changed_letter(Order{}, [](Json& message) { message["lost"] = {-1}; }), encode({3, {}, Hello{.nproc = 0}}),
        encode({3, {}, Order{2, Order::Act::Rescue, 0, {}, {}, {{.local_rank = -1, .environment = {}}}}})})
    EXPECT_THROW(decode(wrong, {}), comm::Error) << nlohmann::json::from_cbor(wrong).dump();
}

TEST(Messages, EveryFieldArrives) {
  const auto now = Clock::now();
  const auto later = now + seconds(100);  // another host's clock
  RankEnd rank = ended_rank(5, {}, true, 9);
  rank.started = now - seconds(9);
  rank.ended = now - seconds(2);
  rank.sent = {15, 18};
  rank.replaced = true;
  rank.place = 3;
  rank.cpus = "0-3";
  rank.evidence = "  a hint\n";
  rank.last_lines = {"one", "two"};
  const Report report = passed_on(Report{3, {rank}, true, "", 7}, now, later);
  EXPECT_EQ(report.round, 3);
  EXPECT_TRUE(report.over);
  EXPECT_EQ(report.status, 7);
  const RankEnd& read = report.ranks.at(0);
  EXPECT_EQ(read.place, 3);
  EXPECT_EQ(read.cpus, "0-3");
  EXPECT_EQ(read.ended, later - seconds(2));
  EXPECT_EQ(read.sent, rank.sent);
  EXPECT_TRUE(read.replaced);
  EXPECT_EQ(describe_other(read), describe_other(rank));
  EXPECT_EQ(hint(read), "  a hint\n");
  EXPECT_EQ(read.last_lines, rank.last_lines);

  const Order order = passed_on(
      Order{2, Order::Act::Rescue, 0, {1}, {0, 4}, {{.local_rank = 1, .restart_count = 2, .environment = {"RANK=3"}}}});
  EXPECT_EQ(order.frozen, (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(order.starts.at(0).restart_count, 2);
  EXPECT_EQ(order.starts.at(0).environment, std::vector<std::string>{"RANK=3"});

  const RoundPlan table = passed_on(RoundPlan{4,
                                              1,
                                              6,
                                              "job",
                                              "",
                                              "10.0.0.1",
                                              29500,
                                              {{3, "a", 7, "10.0.0.1", 4, 8, 0}, {1, "b", 8, "10.0.0.2", 2, 8, 4}},
                                              0,
                                              29501});
  EXPECT_EQ(table.node_of(1), 1);
  EXPECT_FALSE(table.node_of(0));
  EXPECT_EQ(table.nodes[1].first_rank, 4);
  EXPECT_EQ(table.master_port, 29500);
  EXPECT_EQ(table.store_port, 29501);

  EXPECT_EQ(passed_on(hello_of(2)).node_rank, 2);
  EXPECT_EQ(passed_on(hello_of()).settings, hello_of().settings);
  EXPECT_FALSE(passed_on(hello_of()).node_rank);
}

TEST(PatientTimer, CountsNoTimeInWhichItDidNotLook) {
  PatientTimer::Clock::time_point now{};
  PatientTimer timer(milliseconds(100), now);
  timer.look(now += milliseconds(100), false);
  EXPECT_EQ(timer.silence(), milliseconds(100));
  timer.look(now += seconds(60), false);  // this process was suspended
  EXPECT_EQ(timer.silence(), milliseconds(300));
  timer.look(now += milliseconds(100), true);
  EXPECT_EQ(timer.silence(), milliseconds(0));
}

RoundEnd two_nodes() {
  RoundEnd end;
  end.plan.world_size = 4;
  end.plan.nodes = {{0, "a", 1, "", 2, 1, 0}, {1, "b", 2, "", 2, 1, 2}};
  return end;
}

TEST(Judge, ADeathByASignalOnAnotherNodeIsTheCause) {
  RoundEnd end = two_nodes();
  end.ended[0].ranks = {ended_rank(0, milliseconds(10), false, 1), ended_rank(1, milliseconds(20), false, 1)};
  end.ended[1].ranks = {ended_rank(2, milliseconds(30), true, SIGSEGV), ended_rank(3, milliseconds(40), false, 1)};
  end.ended[1].ranks[0].last_lines = {"last line"};
  const Judgement judgement = judge(end);
  EXPECT_EQ(judgement.status, 128 + SIGSEGV);
  EXPECT_TRUE(judgement.summary.starts_with("rank 2 (pid 102 on b) was killed by SIGSEGV")) << judgement.summary;
  test::expect_parts(judgement.summary, {"    | last line\n", "  rank 3 (pid 103 on b) exited with status 1"});
}

TEST(Judge, ALostNodeIsTheCauseOfExitsAroundIt) {
  RoundEnd end = two_nodes();
  end.ended[0].ranks = {ended_rank(0, milliseconds(10), false, 3), ended_rank(1, milliseconds(20), false, 3)};
  end.lost.push_back({1, "node 1 was lost", Clock::time_point(milliseconds(100))});
  EXPECT_EQ(judge(end).status, 1);
  EXPECT_TRUE(judge(end).summary.starts_with("node 1 was lost\n"));
  end.lost[0].at = Clock::time_point(seconds(60));
  EXPECT_EQ(judge(end).status, 3);
  EXPECT_TRUE(judge(end).summary.starts_with("rank 0 (pid 100 on a) exited with status 3"));
}

// Keeps what is said.
struct Listener final : Conductor::Outside {
  void post(int to, const Message& message) override { said.emplace_back(to, message); }
  ElasticJob* new_stores(RoundPlan& plan, ElasticJob::Say) override {
    worlds.push_back(plan.world_size);
    return nullptr;
  }
  template <typename T>
  bool last_is() const {
    return !said.empty() && std::holds_alternative<T>(said.back().second);
  }
  /// Of the round that has just begun, in order of GROUP_RANK; none if it has not.
  std::vector<int> agents() const {
    std::vector<int> result;
    if (!last_is<RoundPlan>()) return result;
    for (const NodePlace& node : std::get<RoundPlan>(said.back().second).nodes) result.push_back(node.agent);
    return result;
  }
  /// A line for people: the `back`th message from the end.
  const std::string& notice(std::size_t back) const {
    return std::get<Notice>(said.at(said.size() - back).second).text;
  }
  const Verdict& verdict() const { return std::get<Verdict>(said.back().second); }
  std::vector<std::pair<int, Message>> said;
  std::vector<int> worlds;
};

/// A job of `least` to `most` nodes, whose agents come one after the other.
struct Job {
  Job(int least, int most, int max_restarts = 0) : Job(options(least, most, max_restarts)) {}
  explicit Job(const CoordinatorOptions& options, Clock::time_point now = {}) : conductor(options, outside, now) {}

  void comes(int agent, const Hello& hello = hello_of()) { conductor.message(agent, hello, {}); }
  /// The two ranks of agent 0 exit.
  void ends(int code) {
    const RankEnd first = ended_rank(0, milliseconds(0), false, code), second = ended_rank(1, {}, false, code);
    conductor.message(0, Report{.ranks = {first, second}, .over = true}, {});
  }
  static CoordinatorOptions options(int least, int most, int max_restarts) {
    CoordinatorOptions options;
    options.nodes = nodes(least, most);
    options.nodes.last_call = milliseconds(0);
    options.own = hello_of();
    options.launch.max_restarts = max_restarts;
    return options;
  }

  Listener outside;
  Conductor conductor;
};

TEST(Conductor, WaitsForMoreNodesThanMinOnlySoLong) {
  CoordinatorOptions options = Job::options(1, 3, 0);
  options.nodes.last_call = seconds(30);
  const auto start = Clock::now();
  Job job(options, start);
  job.conductor.tick(start);
  job.comes(0);
  job.conductor.tick(start);
  job.conductor.tick(start + seconds(29));
  EXPECT_TRUE(job.outside.said.empty());
  job.conductor.tick(start + seconds(30));
  EXPECT_EQ(job.outside.agents(), std::vector<int>{0});
  Job full(options, start);
  for (int agent = 0; agent < 3; ++agent) full.comes(agent);
  full.conductor.tick(start);
  EXPECT_EQ(full.outside.agents(), (std::vector<int>{0, 1, 2}));
}

TEST(Conductor, ItsOwnNodeIsFirstAndOthersKeepTheirOrder) {
  Job job(1, 3, 1);
  Report ended{.ranks = {ended_rank(0, milliseconds(0), false, 0)}, .over = true};
  ended.ranks[0].sent = {SIGTERM};
  job.comes(5);
  job.comes(2, hello_of({}, 2, true));
  job.conductor.tick({});
  EXPECT_EQ(job.outside.agents(), (std::vector<int>{2, 5}));
  job.comes(1);
  for (const int agent : {2, 5}) job.conductor.message(agent, ended, {});
  job.conductor.tick({});
  EXPECT_EQ(job.outside.agents(), (std::vector<int>{2, 5, 1}));
  job.conductor.lost(5, "killed", {}, {});
  ended.round = ended.ranks[0].code = 1;
  for (const int agent : {2, 1}) job.conductor.message(agent, ended, {});
  job.comes(6);
  job.conductor.tick({});
  EXPECT_EQ(job.outside.agents(), (std::vector<int>{2, 1, 6}));
}

TEST(Conductor, PlacesOfStaticRendezvousAreFixed) {
  CoordinatorOptions options = Job::options(3, 3, 0);
  options.nodes.node_rank = 0;
  Job job(options);
  job.comes(7, hello_of(2));
  job.comes(8, hello_of(0, 2, true));
  job.conductor.tick(Clock::time_point(seconds(1)));
  EXPECT_EQ(job.outside.notice(1), "2 of 3 nodes are here; waiting for --node-rank 1\n");
  job.comes(10, hello_of(2));
  test::expect_parts(job.outside.notice(2), {"--node-rank 2 is taken: pid 77 on b"});
  job.comes(11, hello_of(3));
  EXPECT_EQ(job.outside.notice(2), "--node-rank 3 does not exist among 3 nodes\n");
  job.comes(9, hello_of(1));
  job.conductor.tick({});
  EXPECT_EQ(job.outside.agents(), (std::vector<int>{8, 9, 7}));
}

TEST(Conductor, AJobThatEndsAsANodeComesIsNotRunAgain) {
  Job job(1, 2);
  job.comes(0);
  job.conductor.tick({});
  EXPECT_TRUE(job.outside.last_is<RoundPlan>());
  job.comes(1);
  EXPECT_TRUE(job.outside.last_is<Order>());
  job.ends(0);
  EXPECT_TRUE(job.conductor.finished());
  EXPECT_EQ(job.outside.verdict().status, 0);
}

TEST(Conductor, WhoComesAfterTheEndIsToldHowItEnded) {
  Job job(2, 2);
  job.comes(0);
  job.conductor.give_up("no more");
  job.comes(1);
  EXPECT_EQ(job.outside.said.back().first, 1);
  EXPECT_EQ(job.outside.verdict().summary, "no more\n");
  EXPECT_TRUE(job.outside.verdict().final);
}

TEST(Conductor, ALostNodeOfARoundIsCountedOnce) {
  Job job(1, 2, 1);
  for (const int agent : {0, 1}) job.comes(agent);
  job.conductor.tick({});
  for (int times = 0; times < 2; ++times) job.conductor.lost(1, "killed", {}, {});
  EXPECT_TRUE(job.outside.last_is<Order>());
  job.ends(1);
  EXPECT_TRUE(job.outside.last_is<Verdict>());
  EXPECT_FALSE(job.conductor.finished());
  job.conductor.tick({});
  EXPECT_EQ(job.outside.worlds, (std::vector<int>{4, 2}));
}

TEST(RoundTable, ManyRanksGetOneLineForEachNode) {
  RoundPlan plan{0,
                 0,
                 100,
                 "job",
                 "agents meet at a:1",
                 "",
                 1,
                 {{0, "a", 7, "10.0.0.1", 50, 8, 0}, {1, "b", 8, "10.0.0.2", 50, 8, 50}}};
  const std::string table = round_table(plan, {});
  test::expect_parts(table, {"  50-99      1     b                8          10.0.0.2         8 of the node\n"});
}

}  // namespace
}  // namespace tutti::tools
