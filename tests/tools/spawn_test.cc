#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/signals.h>
#include <tutti/tools/run/spawn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

namespace tutti::tools {
namespace {

TEST(FindProgram, LooksInPathAndTakesPathsAsTheyAre) {
  EXPECT_EQ(find_program("sh").substr(0, 1), "/");
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_THROW(find_program(""), CannotExecute);
}

// As CUDA's driver makes them in a launcher that asks it for the GPUs.
TEST(SignalGuard, ThreadsThatWereThereBeforeTakeNoSignalAway) {
  std::promise<void> end;
  std::thread other([&] { end.get_future().wait(); });
  {
    SignalGuard guard;
    for (const int signal : {SIGCHLD, SIGUSR1, SIGRTMIN + 1}) {
      ::kill(::getpid(), signal);
      pollfd readable{.fd = guard.fd(), .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&readable, 1, 10'000), 1) << signal_name(signal) << " was lost";
      EXPECT_EQ(guard.next(), signal);
    }
  }
  end.set_value();
  other.join();
}

TEST(Spawn, AScriptWithoutInterpreterLineRunsInAShell) {
  const std::string script = testing::TempDir() + "/tutti_script_" + std::to_string(::getpid());
  std::ofstream(script) << "echo from a script with $1\n";
  ::chmod(script.c_str(), 0755);
  const test::Finished run = test::run_program({TUTTI_PROGRAM, "run", "-n", "1", "--", script, "words"});
  EXPECT_EQ(run.out, "from a script with words\n");
  std::filesystem::remove(script);
}

TEST(RankEnvironment, ExtraWinsAndAnOuterLaunchersStoreIsRemoved) {
  ::setenv("TUTTI_STORE", "tcp://outer:1", 1);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  const auto environment = rank_environment(JobEnvironment{}, 0, {"RANK=5", "MINE=a=b"});
  ::unsetenv("TUTTI_STORE");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "RANK=5"), 1);
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "MINE=a=b"), 1);
  for (const std::string& entry : environment)
    EXPECT_FALSE(entry.starts_with("TUTTI_STORE=") || entry.starts_with("TORCHELASTIC_USE_AGENT_STORE=")) << entry;
}

TEST(RankEnvironment, JobIdsDiffer) { EXPECT_NE(new_job_id(), new_job_id()); }

}  // namespace
}  // namespace tutti::tools
