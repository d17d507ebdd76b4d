#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/in_threads.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::expect_parts;
using test::text_of;

constexpr char kSecret[] = "hush";

World world_of(int rank, int world_size, const std::string& file) {
  World world;
  world.rank = rank;
  world.world_size = world_size;
  world.local_rank = rank;
  world.local_world_size = world_size;
  world.meeting_file = file;
  world.job_id = "slurm-7.0";
  world.job_secret = kSecret;
  world.detected_from = "a test";
  return world;
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Meeting : public testing::Test {
 protected:
  std::string path() const { return folder_.file("meet/job.meet"); }
  void write(const std::string& text) const {
    fs::create_directories(folder_.file("meet"));
    std::ofstream(path(), std::ios::binary) << text;
  }
  Announcement own() const { return own_announcement(world_of(0, 3, path()), {"10.0.0.1", "fd00::1"}, 4711); }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_.file("meet")), fs::directory_iterator());
  }

  test::TemporaryFolder folder_;
};

using MeetingFileTest = Meeting;
using PublishedServer = Meeting;

TEST_F(MeetingFileTest, OthersReadWhatRank0Published) {
  MeetingFile file(path(), kSecret);
  EXPECT_FALSE(file.look()) << "not even the folder is there";
  const Announcement announcement = own();
  file.publish(announcement);
  const auto found = MeetingFile(path(), kSecret).look();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->reading, Reading::Whole);
  EXPECT_EQ(found->announcement.job, "slurm-7.0");
  EXPECT_EQ(found->announcement.world_size, 3);
  EXPECT_EQ(found->announcement.pid, ::getpid());
  EXPECT_EQ(found->announcement.addresses, (std::vector<std::string>{"10.0.0.1", "fd00::1"}));
  EXPECT_EQ(found->announcement.port, 4711);
  EXPECT_TRUE(is_running_here(found->announcement));
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_EQ(files(), 1) << "a draft was left";
  file.withdraw("another meeting's");
  EXPECT_EQ(files(), 1);
  file.withdraw(announcement.nonce);
  EXPECT_EQ(files(), 0);
  file.withdraw(announcement.nonce);
}

TEST_F(MeetingFileTest, HalfATextIsNeverTakenForAWholeOne) {
  const std::string text = encode_announcement(own(), kSecret);
  Announcement result;
  ASSERT_EQ(decode_announcement(text, kSecret, result), Reading::Whole);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(decode_announcement(text.substr(0, length), kSecret, result), Reading::HalfWritten) << length;
}

TEST_F(MeetingFileTest, NoByteCanBeChangedWithoutTheSecret) {
  const std::string text = encode_announcement(own(), kSecret);
  Announcement result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_NE(decode_announcement(changed, kSecret, result), Reading::Whole) << at;
  }
  EXPECT_EQ(decode_announcement(text, "another", result), Reading::OtherSecret);
}

TEST_F(MeetingFileTest, ForeignContentIsRefusedAndLeftAsItIs) {
  write("my thesis\n");
  expect_error(ErrorCode::Protocol, {path(), "my thesis", "TUTTI_MEET_DIR"},
               [&] { MeetingFile(path(), kSecret).publish(own()); });
  EXPECT_EQ(content_of(path()), "my thesis\n");
}

TEST_F(MeetingFileTest, WhatAnEarlierRunLeftIsReplaced) {
  Announcement old = own();
  old.pid = 1 << 30;  // no process has such a number
  for (const std::string& left :
       {encode_announcement(old, kSecret), encode_announcement(old, "another"),
        encode_announcement(old, kSecret).substr(0, 50), std::string(), std::string("tutti-meeting=2;slurm-7.0;3;")}) {
    write(left);
    MeetingFile file(path(), kSecret);
    const Announcement announcement = own();
    file.publish(announcement);
    const auto found = file.look();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->announcement.nonce, announcement.nonce);
  }
}

TEST_F(MeetingFileTest, AJobThatIsMeetingThereIsNotPushedAside) {
  Announcement other = own();
  other.pid = ::getppid();
  std::istringstream stat(content_of("/proc/" + std::to_string(other.pid) + "/stat"));
  std::string text = stat.str();
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  other.started = std::stoull(field);
  write(encode_announcement(other, kSecret));
  expect_error(ErrorCode::InvalidArgument, {"pid " + std::to_string(other.pid), "TUTTI_JOB_ID"},
               [&] { MeetingFile(path(), kSecret).publish(own()); });
}

void meet(const World& world) {
  const auto group = ProcessGroup::connect(world, {.timeout = std::chrono::seconds(60)});
  std::vector<int> values{world.rank + 1};
  group->all_reduce(std::span(values));
  EXPECT_EQ(values[0], world.world_size * (world.world_size + 1) / 2);
  group->shutdown();
}

TEST_F(PublishedServer, RanksMeetAgainAndAgainAndLeaveNothing) {
  test::in_threads(3, [&](int rank) {
    for (int time = 0; time < 3; ++time) meet(world_of(rank, 3, path()));
  });
  EXPECT_EQ(files(), 0);
}

TEST_F(PublishedServer, LateRank0ReplacesWhatLedNowhere) {
  const Socket dead_end(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(dead_end.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(dead_end.get(), 5), 0);
  Announcement stale = own_announcement(world_of(0, 2, path()), {"127.0.0.1"}, local_endpoint(dead_end.get()).port());
  stale.pid = 1 << 30;
  write(encode_announcement(stale, kSecret));
  std::thread early([&] { meet(world_of(1, 2, path())); });
  { const Socket visitor(::accept(dead_end.get(), nullptr, nullptr)); }  // rank 1 has believed the leftover
  meet(world_of(0, 2, path()));
  early.join();
  EXPECT_EQ(files(), 0);
}

std::string failure_of(const World& world, ErrorCode code, std::chrono::milliseconds timeout) {
  return text_of(code, [&] { ProcessGroup::connect(world, {.timeout = timeout}); });
}

TEST_F(PublishedServer, WithoutRank0TheFileAndTheRemedyAreNamed) {
  const std::string text = failure_of(world_of(1, 2, path()), ErrorCode::Timeout, std::chrono::milliseconds(200));
  test::expect_parts(
      text, {"rank 1/2 (a test): rank 0's address was not found in " + path(), "it is not there", "TUTTI_MEET_DIR"});
  write(encode_announcement(own(), kSecret).substr(0, 60));
  test::expect_parts(failure_of(world_of(1, 2, path()), ErrorCode::Timeout, std::chrono::milliseconds(200)),
                     {"it is half written"});
}

TEST_F(PublishedServer, ForeignFileEndsTheSearchAtOnce) {
  write("my thesis\n");
  test::expect_parts(failure_of(world_of(1, 2, path()), ErrorCode::Protocol, std::chrono::minutes(5)), {"my thesis"});
}

TEST_F(PublishedServer, AnotherJobsAnnouncementThatStaysIsRefused) {
  MeetingFile(path(), "another").publish(own());
  const std::string text = failure_of(world_of(1, 3, path()), ErrorCode::Unauthorized, std::chrono::minutes(5));
  test::expect_parts(text, {"with another job secret", "TUTTI_JOB_SECRET"});
}

TEST_F(PublishedServer, MissingRanksAreNamedWithThePlace) {
  const std::string text = failure_of(world_of(0, 3, path()), ErrorCode::Timeout, std::chrono::milliseconds(300));
  test::expect_parts(text, {"no sign of rank(s) 1, 2", "published in " + path()});
  EXPECT_EQ(files(), 0) << "rank 0 left its announcement";
}

}  // namespace
}  // namespace tutti::comm
