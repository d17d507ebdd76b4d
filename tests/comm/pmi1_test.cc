#include <gtest/gtest.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/pmi1.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using test::expect_contains;
using test::in_ms;
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

std::string word(const std::string& line, const std::string& key) {
  std::istringstream in(line);
  for (std::string each; in >> each;)
    if (each.starts_with(key + "=")) return each.substr(key.size() + 1);
  return {};
}

/// Answers as Hydra's does, recorded with MPICH 4.0; a thread for each process.
class FakeHydra {
 public:
  explicit FakeHydra(int size) : lines_(static_cast<std::size_t>(size)) {
    for (Line& line : lines_) threads_.emplace_back([this, fd = line.server.get()] { serve(fd); });
  }
  ~FakeHydra() {
    for (Line& line : lines_) line.process.close();
    for (std::thread& thread : threads_) thread.join();
  }
  int descriptor(int rank) const { return lines_[static_cast<std::size_t>(rank)].process.get(); }

 private:
  void serve(int fd) {
    for (std::string line; !(line = read_line(fd)).empty();) {
      const std::string command = word(line, "cmd");
      if (command == "get_maxes") write_line(fd, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
      if (command == "get_my_kvsname") write_line(fd, "cmd=my_kvsname kvsname=kvs_25026_0_1198255008_vm");
      if (command == "put") put(line), write_line(fd, "cmd=put_result rc=0 msg=success");
      if (command == "get") write_line(fd, get(word(line, "key")));
      if (command == "barrier_in") barrier(), write_line(fd, "cmd=barrier_out");
    }
  }
  void put(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    values_[word(line, "key")] = word(line, "value");
  }
  std::string get(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return "cmd=get_result rc=-1 msg=key_" + key + "_not_found value=unknown";
    return "cmd=get_result rc=0 msg=success value=" + found->second;
  }
  void barrier() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++waiting_ == static_cast<int>(lines_.size())) {
      waiting_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ != round; });
  }

  std::vector<Line> lines_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::map<std::string, std::string> values_;
  int waiting_ = 0;
  int round_ = 0;
};

// A process that has used PMI and ends without this word counts as crashed, and mpiexec kills the others.
TEST(Pmi1DeathTest, ItsLastWordIsFinalize) {
  Line line;
  write_line(line.server.get(), "cmd=finalize_ack");
  const int descriptor = line.process.get();
  const auto end_in_good_order = [&] {
    ::setenv("PMI_FD", std::to_string(descriptor).c_str(), 1);
    finalize_pmi_at_exit(descriptor);
    finalize_pmi_at_exit(descriptor);
    std::exit(0);
  };
  EXPECT_EXIT(end_in_good_order(), testing::ExitedWithCode(0), "");
  line.process.close();
  EXPECT_EQ(read_line(line.server.get()), "cmd=finalize");
  EXPECT_EQ(read_line(line.server.get()), "");
}

TEST(Pmi1DeathTest, ADescriptorThatStandsForSomethingElseIsLeftAlone) {
  Line line;
  Line other;
  const auto reuse_the_number = [&] {
    const int descriptor = line.process.get();
    ::setenv("PMI_FD", std::to_string(descriptor).c_str(), 1);
    finalize_pmi_at_exit(descriptor);
    ::dup2(other.process.get(), descriptor);
    std::exit(0);
  };
  EXPECT_EXIT(reuse_the_number(), testing::ExitedWithCode(0), "");
  other.process.close();
  EXPECT_EQ(read_line(other.server.get()), "");
}

TEST(Pmi1, PutIsGotAfterABarrier) {
  FakeHydra hydra(2);
  std::thread other([&] {
    Pmi1 pmi(hydra.descriptor(1), soon());
    pmi.barrier(soon());
    EXPECT_EQ(pmi.get("where", soon()), "10.0.0.1;a=b");
    EXPECT_EQ(pmi.get("nowhere", soon()), std::nullopt);
  });
  Pmi1 pmi(hydra.descriptor(0), soon());
  EXPECT_EQ(pmi.job(), "kvs_25026_0_1198255008_vm");
  pmi.put("where", "10.0.0.1;a=b", soon());
  pmi.barrier(soon());
  other.join();
  expect_contains(text_of(ErrorCode::Protocol, [&] { pmi.put("long", std::string(1024, 'x'), soon()); }), "1024 bytes");
}

TEST(Pmi1, RanksMeetAgainAndAgain) {
  FakeHydra hydra(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      World world;
      world.rank = rank;
      world.world_size = world.local_world_size = 3;
      world.local_rank = rank;
      world.pmi_descriptor = hydra.descriptor(rank);
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
  for (std::thread& rank : ranks) rank.join();
}

/// What the constructor throws when the server answers the first request by `answer`.
std::string refusal_of(ErrorCode code, const std::string& answer) {
  Line line;
  std::thread server([&] {
    read_line(line.server.get());
    write_line(line.server.get(), answer);
  });
  const std::string text = text_of(code, [&] { Pmi1(line.process.get(), soon()); });
  server.join();
  return text;
}

TEST(Pmi1, AnswersThatAreNotPmi1AreQuoted) {
  const std::string text = refusal_of(ErrorCode::Protocol, "    52cmd=fullinit-response;rc=14;");
  expect_contains(text, "52cmd=fullinit-response");
  expect_contains(text, "TUTTI_MEET_DIR");
  EXPECT_EQ(refusal_of(ErrorCode::Protocol, "\x1b[31mcmd=maxes").find('\x1b'), std::string::npos);
}

TEST(Pmi1, GoneServerAndMissingRanksAreNamed) {
  Line line;
  line.server.close();
  expect_contains(text_of(ErrorCode::System, [&] { Pmi1(line.process.get(), soon()); }), "does not answer");
  expect_contains(text_of(ErrorCode::System, [&] { Pmi1(1 << 20, soon()); }), "Bad file descriptor");
  FakeHydra hydra(2);
  std::string text;
  {
    Pmi1 pmi(hydra.descriptor(0), soon());
    text = text_of(ErrorCode::Timeout, [&] { pmi.barrier(in_ms(50)); });
  }
  expect_contains(text, "some rank has not come to meet the others");
  Pmi1 late(hydra.descriptor(1), soon());
  late.barrier(soon());
}

}  // namespace
}  // namespace tutti::comm
