// What a launcher takes from its host: CPUs, control groups, standard input, evidence of how a rank ended.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <tutti/tools/run/host.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/rank_environment.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;
using tools::Cgroups;
using tools::Cpu;
using tools::divide_cpus;
using tools::Evidence;
using tools::RankEnd;
using Division = std::vector<std::vector<int>>;

// A file system of its own with what a test writes into it.
class FakeHost : public testing::Test, protected TestFolder {};

using CgroupFiles = FakeHost;
using EvidenceFiles = FakeHost;

TEST_F(CgroupFiles, VersionTwoQuotaIsTheTightestOnTheWayUp) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  EXPECT_EQ(Cgroups(path()).cpu_quota(), 2.5);
}

TEST_F(CgroupFiles, VersionOneQuota) {
  write("proc/self/cgroup", "3:cpu,cpuacct:/job\n2:memory:/job\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Cgroups(path()).cpu_quota(), 3.0);
}

TEST_F(CgroupFiles, AContainerThatDoesNotSeeItsPathLooksAtItsMount) {
  write("proc/self/cgroup", "0::/not/there\n");
  write("sys/fs/cgroup/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  const auto kills = Cgroups(path()).out_of_memory_kills();
  EXPECT_EQ(kills.in_group, 2u);
  EXPECT_EQ(kills.limit, std::nullopt);
  EXPECT_EQ(Cgroups(path()).cpu_quota(), std::nullopt);
}

TEST_F(CgroupFiles, PressureIsTheShareOfTheLastTenSeconds) {
  EXPECT_EQ(tools::cpu_pressure(path()), 0);
  write("proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.10 total=9\nfull avg10=0.00\n");
  EXPECT_EQ(tools::cpu_pressure(path()), 12.5);
}

TEST_F(CgroupFiles, NothingIsKnownWithoutFiles) {
  EXPECT_EQ(Cgroups(path()).cpu_quota(), std::nullopt);
  EXPECT_EQ(Cgroups(path()).out_of_memory_kills().group, "");
}

RankEnd killed_by(int signal) {
  RankEnd end;
  end.pid = 4321;
  end.running = false;
  end.by_signal = true;
  end.code = signal;
  return end;
}

TEST_F(EvidenceFiles, AKillForMemoryIsToldFromAnother) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/vmstat", "nr_free 5\noom_kill 7\n");
  write("sys/fs/cgroup/job/memory.events", "oom 0\noom_kill 0\n");
  write("sys/fs/cgroup/job/memory.max", "67108864\n");
  const Evidence evidence(path());
  expect_parts(evidence.about(killed_by(SIGKILL)), {"Not for lack of memory"});
  write("proc/vmstat", "oom_kill 8\n");
  expect_parts(evidence.about(killed_by(SIGKILL)), {"Probably out of memory"});
  write("sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 1\n");
  const std::string text = evidence.about(killed_by(SIGKILL));
  expect_parts(text, {"Out of memory: the kernel killed 1 process", "limit is 64.0 MiB"});
}

TEST_F(EvidenceFiles, ACoreDumpIsFound) {
  RankEnd end = killed_by(SIGSEGV);
  end.core_dumped = true;
  const Evidence evidence(path());
  write("proc/sys/kernel/core_pattern", "|/usr/lib/systemd/systemd-coredump %P %u\n");
  EXPECT_EQ(evidence.about(end), "  It left a core dump: coredumpctl info 4321\n");
  write("proc/sys/kernel/core_pattern", "|/opt/catcher %p\n");
  EXPECT_EQ(evidence.about(end), "  It left a core dump with /opt/catcher\n");
  write("proc/sys/kernel/core_pattern", "/cores/%e.%p\n");
  EXPECT_EQ(evidence.about(end), "  It left a core dump, where /proc/sys/kernel/core_pattern says: /cores/%e.%p\n");
}

TEST(CpuPlan, RanksGetWholeCoresOfOneNode) {
  // Two nodes with two cores of two threads each, numbered as Linux does: the second threads come last.
  std::vector<Cpu> cpus;
  for (int id = 0; id < 8; ++id) cpus.push_back({id, id % 4, (id % 4) / 2});
  EXPECT_EQ(divide_cpus(cpus, 2), (Division{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(divide_cpus(cpus, 4), (Division{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(divide_cpus(cpus, 3), (Division{{0, 4}, {1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(divide_cpus(cpus, 8), (Division{{0}, {4}, {1}, {5}, {2}, {6}, {3}, {7}}));
  EXPECT_EQ(divide_cpus(cpus, 9), Division{});
}

TEST(CpuPlan, EveryAllowedCpuOfThisHostIsGivenOnce) {
  const std::vector<Cpu> cpus = tools::allowed_cpus();
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  ASSERT_EQ(cpus.size(), static_cast<std::size_t>(CPU_COUNT(&mask)));
  std::set<int> given;
  for (const auto& share : divide_cpus(cpus, static_cast<int>(cpus.size()))) given.insert(share.begin(), share.end());
  EXPECT_EQ(given.size(), cpus.size());
}

TEST(CpuPlan, TheSentenceSaysWhoHasWhat) {
  tools::LocalOptions options;
  options.cpus = {{0, 1}, {2, 3}};
  EXPECT_EQ(tools::describe_cpus(options, 2, 4, nullptr),
            "2 ranks divide 4 CPUs, pinned: 0-1 | 2-3; OMP_NUM_THREADS=2");
  options.cpus.clear();
  options.why_not_bound = "there are more ranks than CPUs";
  EXPECT_EQ(tools::describe_cpus(options, 8, 4, "3"),
            "8 ranks share 4 CPUs, not pinned (there are more ranks than CPUs); OMP_NUM_THREADS=3 of the environment");
}

// The CPUs that a rank may use, as its shell's /proc entry lists them.
constexpr char kPrintCpus[] =
    "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status; echo own ${TUTTI_OWN_CPUS-no}";

TEST(Pinning, RanksArePinnedToTheirShareAndToldSo) {
  if (tools::allowed_cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  const Finished run = tutti_run({"-n", "2", "--bind", "--ranks-filter", "1", "--no-label"}, kPrintCpus);
  std::istringstream lines(run.out);
  std::string cpus, own;
  std::getline(lines, cpus);
  std::getline(lines, own);
  EXPECT_EQ(own, "own " + cpus) << run.out;
  const Finished free = tutti_run({"-n", "2", "--ranks-filter", "1", "--no-label", "--no-bind"}, kPrintCpus);
  expect_parts(free.out, {"own no\n"});
  EXPECT_NE(free.out.substr(0, free.out.find('\n')), cpus);
}

TEST(Pinning, WhoPlacesThreadsHimselfIsLeftAlone) {
  const Finished run = tutti_run({"-n", "2", "--bind", "--verbose"}, "echo ${TUTTI_OWN_CPUS-no}", {"OMP_PLACES=cores"});
  expect_parts(run.err, {"not pinned (OMP_PLACES is set)"});
  expect_parts(run.out, {"[rank 0] no\n"});
}

// As bench, train, tune and evaluate start them.
TEST(Pinning, OwnRanksGetTheirShareOrTheReasonWhyNot) {
  const tools::LaunchOptions launch = tools::launch_of_own_ranks(2, "tutti bench");
  EXPECT_EQ(launch.local.cpus.empty(), !launch.local.why_not_bound.empty());
  if (tools::allowed_cpus().size() >= 2 && tools::cpu_pressure() == 0) {
    EXPECT_EQ(launch.local.cpus.size(), 2u);
  }
  tools::LocalOptions insisting;
  tools::divide_among_ranks(insisting, 2, /*insists=*/true);
  EXPECT_EQ(insisting.cpus, divide_cpus(tools::allowed_cpus(), 2));
  ::setenv("OMP_PLACES", "cores", 1);
  EXPECT_EQ(tools::launch_of_own_ranks(2, "tutti bench").local.why_not_bound, "OMP_PLACES is set");
  ::unsetenv("OMP_PLACES");
}

TEST(StandardInput, GoesToTheRankThatWasNamed) {
  const Finished run = run_program({"sh", "-c", "echo a line | \"$0\" run -n 3 --stdin 1 -- cat", TUTTI_PROGRAM});
  EXPECT_EQ(run.out, "[rank 1] a line\n") << run.err;
  EXPECT_EQ(run_program({"sh", "-c", "echo a line | \"$0\" run -n 3 -- cat", TUTTI_PROGRAM}).out, "");
}

// On a terminal a rank is in the background and could not read.
TEST(StandardInput, ATerminalIsRefused) {
  const std::string script =
      "import os,pty,subprocess,sys\n"
      "run=subprocess.run([sys.argv[1],'run','-n','2','--stdin','1','--','cat'],stdin=pty.openpty()[1],stderr=-1)\n"
      "print(run.returncode,run.stderr.decode())\n";
  const Finished run = run_program({"python3", "-c", script, TUTTI_PROGRAM});
  expect_parts(run.out, {"1 tutti run: --stdin 1: standard input is a terminal", "cat | tutti run --stdin 1 ..."});
}

// A control group with a memory limit, below this process's own; gone with the object.
class SmallGroup {
 public:
  explicit SmallGroup(const std::string& bytes) {
    const std::string counted = Cgroups().out_of_memory_kills().group;
    if (counted.empty()) return;
    const fs::path parent = fs::path(counted).parent_path();
    const fs::path folder = parent / ("tutti_test_" + std::to_string(::getpid()));
    std::error_code error;
    if (!fs::create_directory(folder, error)) return;
    path_ = folder;
    const bool version_1 = fs::exists(folder / "memory.limit_in_bytes");
    std::ofstream limit(folder / (version_1 ? "memory.limit_in_bytes" : "memory.max"));
    usable_ = static_cast<bool>(limit << bytes << std::flush);
  }
  ~SmallGroup() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  SmallGroup(const SmallGroup&) = delete;
  SmallGroup& operator=(const SmallGroup&) = delete;
  bool usable() const { return usable_; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool usable_ = false;
};

TEST(Evidence, ARankThatTakesMoreMemoryThanItsGroupHasIsKilledForThat) {
  const SmallGroup group("536870912");  // the launcher has room in it, also with a sanitizer
  if (!group.usable()) GTEST_SKIP() << "needs a control group of its own with a memory limit";
  const Finished run = run_program(
      {"sh", "-c",
       "echo $$ > \"$1/cgroup.procs\" || exit 77; exec \"$0\" run -n 2 -- sh -c 'test $RANK = 0 && exec sleep 1000; "
       "exec python3 -c \"x = bytearray(1 << 30)\"'",
       TUTTI_PROGRAM, group.path()});
  if (run.status == exited(77)) GTEST_SKIP() << "may not enter the control group";
  expect_failure(run, 128 + SIGKILL, {"tutti run: rank 1 (pid", "  Out of memory: the kernel killed 1 process"});
}

}  // namespace
}  // namespace tutti::test
