#include <gtest/gtest.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tests/support/in_threads.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;
using test::expect_error;
using test::expect_parts;
using test::soon;
using test::text_of;

/// The two ends of a process's PMI_FD.
struct Line {
  Line() {
    int ends[2] = {};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no socket pair");
    process = Socket(ends[0]);
    server = Socket(ends[1]);
  }
  Socket process;
  Socket server;
};

std::string read_line(int descriptor) {
  std::string line;
  for (char c; ::read(descriptor, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void write_line(int descriptor, const std::string& line) {
  const std::string text = line + "\n";
  ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);  // a process that has gone misses it
}

/// Answers the question for the job's name by `answer`, as often as it comes.
class PmiServer {
 public:
  explicit PmiServer(std::string answer = "cmd=my_kvsname kvsname=kvs_25026_0_1198255008_vm")
      : thread_([fd = line_.server.get(), answer = std::move(answer)] {
          for (std::string line; !(line = read_line(fd)).empty();) {
            EXPECT_EQ(line, "cmd=get_my_kvsname");
            write_line(fd, answer);
          }
        }) {}
  ~PmiServer() {
    line_.process.close();
    thread_.join();
  }
  int descriptor() const { return line_.process.get(); }

 private:
  Line line_;
  std::thread thread_;
};

// A process that has used PMI and ends without this word counts as crashed, and mpiexec kills the others.
TEST(Pmi1DeathTest, ItsLastWordIsFinalize) {
  Line line;
  for (const char* answer : {"cmd=my_kvsname kvsname=a", "cmd=my_kvsname kvsname=a", "cmd=finalize_ack"})
    write_line(line.server.get(), answer);
  const int descriptor = line.process.get();
  const auto end_in_good_order = [&] {
    ::setenv("PMI_FD", std::to_string(descriptor).c_str(), 1);
    for (int time = 0; time < 2; ++time)
      if (pmi_job_name(descriptor, soon()) != "pmi-a") std::exit(1);
    std::exit(0);
  };
  EXPECT_EXIT(end_in_good_order(), testing::ExitedWithCode(0), "");
  line.process.close();
  for (const char* said : {"cmd=get_my_kvsname", "cmd=get_my_kvsname", "cmd=finalize", ""})
    EXPECT_EQ(read_line(line.server.get()), said);
}

TEST(Pmi1DeathTest, ADescriptorThatStandsForSomethingElseIsLeftAlone) {
  Line line;
  Line other;
  write_line(line.server.get(), "cmd=my_kvsname kvsname=a");
  const auto reuse_the_number = [&] {
    const int descriptor = line.process.get();
    ::setenv("PMI_FD", std::to_string(descriptor).c_str(), 1);
    pmi_job_name(descriptor, soon());
    ::dup2(other.process.get(), descriptor);
    std::exit(0);
  };
  EXPECT_EXIT(reuse_the_number(), testing::ExitedWithCode(0), "");
  other.process.close();
  EXPECT_EQ(read_line(other.server.get()), "");
}

TEST(Pmi1, RanksMeetInAFileOfTheJobsName) {
  const test::TemporaryFolder folder;
  test::in_threads(3, [&](int rank) {
    const PmiServer hydra;
    World world;
    world.rank = world.local_rank = rank;
    world.world_size = world.local_world_size = 3;
    world.pmi_descriptor = hydra.descriptor();
    world.meeting_file = folder.path();
    world.job_id = "default";
    world.job_secret = "hush";
    for (int time = 0; time < 3; ++time) {
      const auto group = ProcessGroup::connect(world, {.timeout = std::chrono::seconds(60)});
      std::vector<int> values{rank};
      group->all_reduce(std::span(values));
      EXPECT_EQ(values[0], 3);
      group->shutdown();
    }
  });
  World late;
  const PmiServer hydra;
  late.rank = 1;
  late.world_size = 2;
  late.pmi_descriptor = hydra.descriptor();
  late.meeting_file = folder.path();
  test::expect_error(ErrorCode::Timeout, {folder.file("pmi-kvs_25026_0_1198255008_vm.meet")},
                     [&] { ProcessGroup::connect(late, {.timeout = milliseconds(200)}); });
}

TEST(Pmi1, AnswersThatAreNotPmi1AreQuoted) {
  const auto refusal = [](const std::string& answer) {
    const PmiServer server(answer);
    return text_of(ErrorCode::Protocol, [&] { pmi_job_name(server.descriptor(), soon()); });
  };
  const std::string text = refusal("    52cmd=fullinit-response;rc=14;");
  test::expect_parts(text, {"52cmd=fullinit-response", "TUTTI_MEET_DIR"});
  EXPECT_EQ(refusal("\x1b[31mcmd=my_kvsname").find('\x1b'), std::string::npos);
}

TEST(Pmi1, AServerThatDoesNotAnswerIsNamed) {
  Line line;
  expect_error(ErrorCode::Timeout, {"PMI_FD=" + std::to_string(line.process.get())},
               [&] { pmi_job_name(line.process.get(), test::in_ms(50)); });
  line.server.close();
  test::expect_error(ErrorCode::System, {"does not answer"}, [&] { pmi_job_name(line.process.get(), soon()); });
  test::expect_error(ErrorCode::System, {"Bad file descriptor"}, [&] { pmi_job_name(1 << 20, soon()); });
}

}  // namespace
}  // namespace tutti::comm
