// tutti doctor: what each check makes of a system, of other ranks and of figures; and the command itself.

#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/tests/comm/store_test_support.h>
#include <tutti/tools/doctor/checks.h>

#include <map>
#include <nlohmann/json.hpp>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

using namespace doctor;
using comm::test::environment_of;

/// Files of a made-up system.
struct FakeSystem : TestFolder {
  System system() const { return {path()}; }
};

const Finding& find(const Findings& findings, const std::string& what) {
  for (const Finding& finding : findings)
    if (finding.what == what) return finding;
  ADD_FAILURE() << "no finding about " << what << " in\n" << as_text(findings);
  static const Finding none{};
  return none;
}

void expect(const Finding& finding, Verdict verdict, const std::string& value, const std::string& fix = "") {
  EXPECT_EQ(finding.verdict, verdict) << finding.value;
  expect_parts(finding.value, {value});
  expect_parts(finding.fix, {fix});
}

/// The finding about `what`.
void expect(const Findings& findings, const std::string& what, Verdict verdict, const std::string& value,
            const std::string& fix = "") {
  expect(find(findings, what), verdict, value, fix);
}

Resolver resolver_of(std::map<std::string, LookUp> known) {
  return [known = std::move(known)](const std::string& name) {
    const auto found = known.find(name);
    return found == known.end() ? LookUp{{}, "Name or service not known", 0} : found->second;
  };
}

TEST(Doctor, TextAndJsonSayTheSame) {
  const Findings findings{{"a", "fine", Verdict::Ok, "", ""},
                          {"b", "so \"so\"", Verdict::Warn, "mend it", ""},
                          {"c", "bad", Verdict::Fail, "mend that", "other host"}};
  EXPECT_EQ(as_text(findings),
            "  ok    a                         fine\n"
            "  WARN  b                         so \"so\"\n"
            "        -> mend it\n"
            "other host\n"
            "  FAIL  c                         bad\n"
            "        -> mend that\n"
            "1 thing is fine, 1 warning, 1 failure\n");
  const Findings again = from_json(as_json(findings));
  EXPECT_EQ(as_text(again), as_text(findings));
  EXPECT_EQ(nlohmann::json::parse(as_json(findings)).at("verdict"), "fail");
  EXPECT_THROW(from_json("{}"), std::runtime_error);
  EXPECT_EQ(worst({}), Verdict::Ok);
}

TEST(Doctor, NamesThatLeadNowhereOrHomeOnlyAreNamed) {
  const LookUp home{{"127.0.0.1"}, "", 0.0001};
  const auto check = [&](LookUp own, std::map<std::string, std::string> variables = {}) {
    return check_names("alpha", environment_of(std::move(variables)),
                       resolver_of({{"alpha", own}, {"localhost", home}}));
  };
  expect(check({{"10.0.0.1"}, "", 0.001}), "host name", Verdict::Ok, "alpha is 10.0.0.1 (1.0 ms)");
  expect(check({{"127.0.1.1"}, "", 0}), "host name", Verdict::Warn, "alpha is 127.0.1.1", "/etc/hosts");
  expect(check({{}, "no such name", 0}), "host name", Verdict::Warn, "not known: no such name", "ADDRESS alpha");
  expect(check({{"10.0.0.1"}, "", 3.5}), "host name", Verdict::Warn, "3500.0 ms", "resolv.conf");
  expect(check({{"10.0.0.1"}, "", 0}), "localhost", Verdict::Ok, "127.0.0.1");
  expect(check({{"10.0.0.1"}, "", 0}, {{"MASTER_ADDR", "beta"}}), "MASTER_ADDR", Verdict::Fail, "beta is not known",
         "number");
  expect(check_names("x", environment_of({}), resolver_of({{"localhost", {{"10.1.1.1"}, "", 0}}})), "localhost",
         Verdict::Fail, "is 10.1.1.1", "127.0.0.1 localhost");
}

TEST(Doctor, InterfacesBridgesAndTheSlowRoute) {
  using Kind = comm::InterfaceAddress::Kind;
  const comm::InterfaceAddress lo{.interface = "lo", .address = "127.0.0.1", .kind = Kind::Loopback};
  const comm::InterfaceAddress eth{.interface = "eth0", .address = "10.0.0.1", .megabits = 1000};
  const comm::InterfaceAddress ib{.interface = "ib0", .address = "10.1.0.1", .megabits = 100'000};
  const comm::InterfaceAddress docker{.interface = "docker0", .address = "172.17.0.1", .kind = Kind::Virtual};
  expect(check_interfaces({lo}, ""), "interfaces", Verdict::Warn, "loopback only");
  const Findings fine = check_interfaces({lo, eth, docker}, "10.0.0.1");
  expect(fine, "interfaces", Verdict::Ok, "eth0 10.0.0.1, 1 Gbit/s");
  expect(fine, "default route", Verdict::Ok, "leaves by eth0, 10.0.0.1");
  EXPECT_EQ(fine.size(), 2U) << as_text(fine);  // bridges are for guests of this host, and no way to others
  expect(check_interfaces({lo, eth, ib}, "10.0.0.1"), "default route", Verdict::Warn,
         "though ib0 10.1.0.1, 100 Gbit/s is faster", "--iface ib0");
  expect(check_interfaces({lo, eth}, ""), "default route", Verdict::Warn, "none", "--iface");
}

TEST(Doctor, AnInfiniBandPortThatIsUpIsNamed) {
  const FakeSystem fake;
  const std::string what = "InfiniBand, RoCE";
  expect(check_ucx(fake.system()), what, Verdict::Ok, "no port is up; ranks of several hosts use TCP");
  fake.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  const std::string refusal = comm::ucx_refusal();
  expect(check_ucx(fake.system()), what, refusal.empty() ? Verdict::Ok : Verdict::Warn, "mlx5_0:1", refusal);
}

TEST(Doctor, PortsAreOpenedReachedAndNamed) {
  const FakeSystem fake;
  const Findings open = check_ports("", environment_of({{"MASTER_PORT", "70000"}}), fake.system());
  expect(open, "port on loopback", Verdict::Ok, "127.0.0.1: opened, reached and answered");
  expect(open, "MASTER_PORT", Verdict::Fail, "'70000'", "from 1 to 65535");
  expect(check_ports("192.0.2.77", environment_of({}), fake.system()), "port on own address", Verdict::Fail,
         "no interface of this host has that address");
  const comm::Socket taken = comm::listen_on("127.0.0.1", 0);
  const std::string port = std::to_string(comm::local_endpoint(taken.get()).port());
  expect(check_ports("", environment_of({{"MASTER_PORT", port}}), fake.system()), "MASTER_PORT", Verdict::Warn,
         "held by pid " + std::to_string(::getpid()), "--master-port 0");
}

TEST(Doctor, FewPortsAndAShortQueueAreWarnedOf) {
  FakeSystem fake;
  fake.write("proc/sys/net/ipv4/ip_local_port_range", "40000\t40100");
  fake.write("proc/sys/net/core/somaxconn", "128");
  const Findings findings = check_ports("", environment_of({}), fake.system());
  expect(findings, "free ports", Verdict::Warn, "40000 to 40100", "ip_local_port_range");
  expect(findings, "waiting connections", Verdict::Warn, "128", "somaxconn");
}

TEST(Doctor, MemoryKnowsTheCgroupsLimits) {
  FakeSystem fake;
  fake.write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB");
  expect(check_limits(fake.system()), "memory", Verdict::Ok, "8.0 GiB of 16.0 GiB are free");
  expect(check_limits(fake.system()), "/dev/shm", Verdict::Fail, "cannot be written", "TUTTI_TRANSPORT=tcp");
  // The limit of a group above counts as well, and "max" is none.
  fake.write("proc/self/cgroup", "0::/job/step");
  fake.write("sys/fs/cgroup/job/step/memory.max", "max");
  fake.write("sys/fs/cgroup/job/memory.max", "536870912");
  expect(check_limits(fake.system()), "memory", Verdict::Warn, "this cgroup may use 512 MiB", "--mem");
  FakeSystem old;
  old.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB");
  old.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296");
  expect(check_limits(old.system()), "memory", Verdict::Ok, "may use 4.0 GiB");
}

TEST(Doctor, CoresKnowTheCgroupsShareAndTheLoad) {
  FakeSystem fake;
  fake.write("proc/loadavg", "9.50 1.00 1.00 2/300 4711");
  const Findings free_of_limits = check_cores({8, 4}, fake.system());
  expect(free_of_limits, "cores", Verdict::Ok, "4 of 8 may be used");
  expect(free_of_limits, "load", Verdict::Warn, "9.5 programs want to run on 4 cores", "measure nothing");
  fake.write("proc/self/cgroup", "0::/job");
  fake.write("sys/fs/cgroup/job/cpu.max", "250000 100000");
  expect(check_cores({8, 4}, fake.system()), "cores", Verdict::Warn, "gives the time of 2.5", "no more than 2 ranks");
  fake.write("sys/fs/cgroup/job/cpu.max", "max 100000");
  fake.write("proc/loadavg", "0.1 0 0");
  expect(check_cores({8, 4}, fake.system()), "load", Verdict::Ok, "0.1");
}

TEST(Doctor, TheLaunchersVariablesAndTheSecret) {
  expect(check_launcher(environment_of({})), "launcher", Verdict::Ok, "no variables");
  const Findings half = check_launcher(environment_of({{"RANK", "1"}, {"TUTTI_JOB_SECRET", "x"}}));
  expect(half, "place in the job", Verdict::Fail, "WORLD_SIZE", "env | grep");
  expect(half, "job secret", Verdict::Ok, "TUTTI_JOB_SECRET");
  FakeSystem home;
  home.write(".config/tutti/job_secret", "secret");
  const std::string path = home / ".config/tutti/job_secret";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  expect(check_launcher(environment_of({{"HOME", home.system().root}})), "job secret", Verdict::Fail, "mode 0644",
         "chmod 600 " + path);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  expect(check_launcher(environment_of({{"HOME", home.system().root}})), "job secret", Verdict::Ok, path);
}

TEST(Doctor, AGpuThatThisBuildCannotUseIsNamed) {
  FakeSystem fake;
  fake.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA Imaginary 9\nIRQ: 1");
  const Finding finding = find(check_gpu(fake.system()), "GPU");
  expect_parts(finding.value, {"1 (NVIDIA Imaginary 9)"});
}

std::vector<RankCard> cards_of(std::vector<std::string> hosts) {
  std::vector<RankCard> cards;
  for (const std::string& host : hosts)
    cards.push_back({static_cast<int>(cards.size()), host, "identity of " + host, "127.0.0.1", "lo", 0, host});
  return cards;
}

TEST(Doctor, WhichRanksAreCalled) {
  EXPECT_EQ(whom_to_call(cards_of({"a", "a", "b"}), 1), (std::vector<int>{0, 2}));
  std::vector<std::string> many(20, "a");
  many[10] = many[11] = "b";
  EXPECT_EQ(whom_to_call(cards_of(many), 0), (std::vector<int>{1, 10}));
  EXPECT_EQ(whom_to_call(cards_of(many), 5), (std::vector<int>{6}));
  EXPECT_EQ(whom_to_call(cards_of(many), 19), (std::vector<int>{0}));
}

TEST(Doctor, AClosedPortANamesakeAndASilentHostAreToldApart) {
  std::vector<RankCard> cards = cards_of({"a", "b", "c", "d"});
  const Answerer right("127.0.0.1", "b"), namesake("127.0.0.1", "somebody else");
  const comm::Socket silent = comm::listen_on("127.0.0.1", 0);  // the kernel accepts, nobody answers
  cards[1].port = right.port();
  cards[2].port = namesake.port();
  cards[3].port = comm::local_endpoint(silent.get()).port();
  Findings findings = check_reach(cards, 0, std::chrono::milliseconds(200));
  ASSERT_EQ(findings.size(), 2U) << as_text(findings);
  expect(findings[0], Verdict::Fail, "rank 0 (a, 127.0.0.1) to rank 2 (c, 127.0.0.1) port", "more than one host");
  expect(findings[1], Verdict::Fail, "rank 3 (d, 127.0.0.1)", "a firewall on the way drops it");
  cards[3].port = 1;  // nobody listens there
  cards[2] = cards[1];
  findings = check_reach(cards, 0, std::chrono::seconds(5));
  ASSERT_EQ(findings.size(), 1U) << as_text(findings);
  expect(findings[0], Verdict::Fail, "Connection refused", "open the ports");
}

TEST(Doctor, ManyClosedPortsAreNotWaitedForOneByOne) {
  std::vector<RankCard> cards = cards_of({"a", "b", "c", "d", "e", "f", "g"});
  for (RankCard& card : cards) card.port = 1;  // nobody listens there
  const Findings findings = check_reach(cards, 6, std::chrono::seconds(5));
  ASSERT_EQ(findings.size(), 5U) << as_text(findings);
  expect(findings[3], Verdict::Fail, "to rank 3 (d, 127.0.0.1)");
  expect(findings[4], Verdict::Warn, "rank 6 (g, 127.0.0.1) to 2 more: not tried");
}

nlohmann::json findings_of(const Finished& run) {
  EXPECT_FALSE(run.out.empty()) << run.err;
  return nlohmann::json::parse(run.out).at("findings");
}

bool has(const nlohmann::json& findings, const std::string& what, const std::string& verdict) {
  for (const auto& finding : findings)
    if (finding.at("what") == what && finding.at("verdict") == verdict) return true;
  return false;
}

TEST(DoctorCommand, LooksAtThisHost) {
  const auto findings = findings_of(tutti({"doctor", "--json"}));
  for (const char* what : {"port on loopback", "place in the job", "open files"})
    EXPECT_TRUE(has(findings, what, "ok")) << what << " in " << findings;
  const Finished text = tutti({"doctor"});
  expect_parts(text.out, {"  ok    localhost"});
}

TEST(DoctorCommand, EndsWithStatus1ForWhatWouldFail) {
  const Finished run = tutti({"doctor", "--json"}, {"RANK=7", "WORLD_SIZE=2"});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_TRUE(has(findings_of(run), "place in the job", "fail")) << run.out;
}

TEST(DoctorCommand, RanksLookAtWhatIsBetweenThem) {
  const Finished run = tutti({"run", "-n", "3", "--no-label", "--", TUTTI_PROGRAM, "doctor", "--json"});
  const auto findings = findings_of(run);
  for (const char* what : {"ranks that met", "interfaces used", "connections", "localhost"})
    EXPECT_TRUE(has(findings, what, "ok") || has(findings, what, "warn")) << what << " in " << findings;
}

TEST(DoctorCommand, RanksThatDoNotMeetAreNamed) {
  const Finished run =
      tutti({"run", "-n", "2", "--", "sh", "-c", "[ $RANK = 1 ] || exec \"$0\" doctor --timeout 0.5", TUTTI_PROGRAM});
  EXPECT_EQ(run.status, exited(1));
  expect_parts(run.out, {"FAIL  meeting", "lost rank 1"});
}

}  // namespace
}  // namespace tutti::test
