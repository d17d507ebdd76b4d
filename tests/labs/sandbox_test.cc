// What a submission's process may not do: one program, whose root says what it tries. Each attempt must be stopped and
// named, and must leave nothing behind.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/sandbox/compile.h>
#include <tutti/tools/labs/session.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace tutti::labs {
namespace {

constexpr char kSource[] = R"cc(
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <tutti/tools/labs/lab.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
  using namespace tutti::labs;

  int endless(int depth) {
    volatile char room[4096];
    room[0] = 1;
    return endless(depth + 1) + room[0];
  }
  void nothing(int) {}

  template <typename T>
  void broadcast(Ranks& ranks, std::span<T> data, int root) {
    char shell[] = "/bin/sh";
    char* arguments[] = {shell, nullptr};
    switch (root) {
      case 0:
        break;
      case 1:
        (void)!fork();
        break;
      case 2:
        execv(shell, arguments);
        break;
      case 3:
        (void)!open("/tmp/tutti_lab_was_here", O_CREAT | O_WRONLY, 0600);
        break;
      case 4:
        (void)!open("/etc/passwd", O_RDONLY);
        break;
      case 5:
        (void)!socket(AF_INET, SOCK_STREAM, 0);
        break;
      case 6:
        kill(getppid(), SIGKILL);
        break;
      case 7:
        sleep(1000);
        break;
      case 8:
        for (;;) {
        }
        break;
      case 9:
        for (;;) std::puts("I am here, I am here, I am here, I am here");
        break;
      case 10:
        _exit(0);
      case 11:
        std::abort();
      case 12:
        std::printf("%d", endless(0));
        break;
      case 13:
        data[data.size()] = T();
        break;
      case 14:
        std::vector<char>(std::size_t{1} << 40).back() = 1;
        break;
      case 15: {
        std::thread other([] {});
        other.join();
        break;
      }
      case 16:
        mmap(nullptr, 4096, PROT_EXEC | PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        break;
      case 17:
        for (int i = 0; i < 100; ++i) (void)!write(3, "no request at all, but many words of my own", 43);
        break;
      case 18:
        for (;;) ranks.send(data, 0);
        break;
      case 19:
        throw 7;
      case 20:
        syscall(SYS_ptrace, 0, 0, 0, 0);
        break;
      case 21:
        syscall(SYS_execveat, 3, "", arguments, nullptr, AT_EMPTY_PATH);
        break;
      case 22:
        signal(SIGSYS, nothing);
        (void)!fork();
        break;
      case 23:
        *(volatile int*)nullptr = 1;
        break;
      case 24:
        raise(SIGSTOP);
        break;
      case 25:
        ranks.send(data, 1);
        break;
    }
  }
  TUTTI_LAB_BROADCAST(broadcast)
)cc";

// Compiled once: it costs seconds.
class LabSandbox : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    workplace_ = new Workplace;
    const auto source = workplace_->path() / "hostile.cc";
    std::ofstream(source) << kSource;
    const Compiled compiled = compile(source, *workplace_);
    ASSERT_TRUE(compiled.is_good) << compiled.messages;
    program_ = compiled.program;
  }
  static void TearDownTestSuite() {
    delete workplace_;
    workplace_ = nullptr;
  }

  static RunResult attempt(int what) {
    Question question;
    question.function = "broadcast";
    question.posed.world_size = 1;
    question.posed.root = what;
    question.buffers = {{{"data", Bytes(8 * 12), false}}};
    Session session(program_, workplace_->empty_folder(), 1);
    return session.run(question);
  }

  static inline Workplace* workplace_ = nullptr;
  static inline std::filesystem::path program_{};
};

TEST_F(LabSandbox, WhatHarmsNobodyPasses) {
  const RunResult result = attempt(0);
  EXPECT_FALSE(result.incident) << result.incident->text;
  EXPECT_EQ(result.buffers.at(0).at(0), Bytes(8 * 12));
}

struct Attempt {
  int what;
  const char* diagnosis;
  const char* text;  // part of what is said
};

TEST_F(LabSandbox, EveryAttemptIsStoppedAndNamed) {
  using namespace diagnosis;
  const Attempt attempts[] = {
      {1, kStartsProcesses, "starts a process"},
      {2, kStartsProcesses, "/bin/sh"},
      {3, kOpensFiles, "/tmp/tutti_lab_was_here"},
      {4, kOpensFiles, "/etc/passwd"},
      {5, kNetworkAccess, "socket"},
      {6, kSignalsOthers, "kill"},
      {7, kSleeps, "sleeps"},
      {8, kEndlessLoop, "no call yet"},
      {9, kTooMuchOutput, "256 KiB"},
      {10, kEarlyExit, "status 0"},
      {11, kCrash, "SIGABRT"},
      {12, kCrash, "calls itself"},
      {13, kOutsideBuffer, "element 12 of data, which has 12"},
      {14, kOutOfMemory, "256 MiB"},
      {16, kForbidden, "mmap"},
      {17, kBreaksProtocol, "past send and recv"},
      {19, kThrew, "no std::exception"},
      {20, kForbidden, "ptrace"},
      {21, kStartsProcesses, "execveat"},
      {23, kCrash, "null pointer"},
      {24, kSignalsOthers, "tgkill"},
      {25, kNoSuchRank, "the ranks are 0 .. 0"},
  };
  for (const Attempt& one : attempts) {
    const RunResult result = attempt(one.what);
    ASSERT_TRUE(result.incident) << one.what;
    EXPECT_EQ(result.incident->diagnosis, one.diagnosis) << one.what << ": " << result.incident->text;
    test::expect_parts(result.incident->text, {one.text});
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/tutti_lab_was_here"));
}

// With words that depend on the C library.
TEST_F(LabSandbox, ThreadsAreRefused) { EXPECT_TRUE(attempt(15).incident); }

TEST_F(LabSandbox, AHandlerOfItsOwnDoesNotLetACallThrough) {
  const RunResult result = attempt(22);  // nobody says what was tried then, but no process is started
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_FALSE(result.incident && result.incident->diagnosis == diagnosis::kBreaksProtocol);
}

}  // namespace
}  // namespace tutti::labs
