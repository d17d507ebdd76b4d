#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/tests/support/in_threads.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
namespace fs = std::filesystem;

class JobSecret : public testing::Test {
 protected:
  Environment environment() const { return environment_of({{"HOME", home_.path()}}); }
  fs::path file() const { return fs::path(home_.path()) / ".config" / "tutti" / "job_secret"; }

  void write(const std::string& text, mode_t mode) const {
    fs::create_directories(file().parent_path());
    std::ofstream(file()) << text;
    ASSERT_EQ(::chmod(file().c_str(), mode), 0);
  }

  std::string refusal() const {
    return text_of(ErrorCode::InvalidArgument, [&] { job_secret(environment()); });
  }

  TemporaryFolder home_;
};

TEST_F(JobSecret, NewOnesAre64HexDigitsAndDiffer) {
  const std::string one = new_job_secret();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, new_job_secret());
}

TEST_F(JobSecret, VariableWins) {
  write("from the file\n", 0600);
  EXPECT_EQ(job_secret(environment_of({{"TUTTI_JOB_SECRET", "from the variable"}})), "from the variable");
}

TEST_F(JobSecret, FileIsMadeOnFirstUseForTheOwnerOnly) {
  const std::string made = job_secret(environment());
  EXPECT_EQ(made.size(), 64u);
  EXPECT_EQ(job_secret(environment()), made);
  struct stat info {};
  ASSERT_EQ(::stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  const auto entries = std::distance(fs::directory_iterator(file().parent_path()), fs::directory_iterator());
  EXPECT_EQ(entries, 1) << "a draft was left behind";
}

TEST_F(JobSecret, RanksThatStartTogetherAgree) {
  std::vector<std::string> secrets(8);
  in_threads(8, [&](int rank) { secrets[static_cast<std::size_t>(rank)] = job_secret(environment()); });
  EXPECT_EQ(std::set<std::string>(secrets.begin(), secrets.end()).size(), 1u);
}

TEST_F(JobSecret, AFileOrFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write("written by hand\n", 0600);
  for (const fs::path& path : {file(), file().parent_path()}) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    expect_parts(refusal(), {path.string() + " belongs to user 65534, not to this one (0)"});
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(job_secret(environment()), "written by hand");
}

TEST_F(JobSecret, ShortOnesOfTheVariableAreWarnedOf) {
  CapturedLog log;
  job_secret(environment_of({{"TUTTI_JOB_SECRET", "0123456789abcdef"}}));
  EXPECT_EQ(log.lines(), "");
  job_secret(environment_of({{"TUTTI_JOB_SECRET", "hush"}}));
  expect_parts(log.lines(), {"TUTTI_JOB_SECRET has 4 characters, and can be guessed"});
}

TEST_F(JobSecret, LineEndIsNotPartOfIt) {
  write("written by hand\r\n", 0600);
  EXPECT_EQ(job_secret(environment()), "written by hand");
}

TEST_F(JobSecret, FileThatOthersReadIsRefusedWithTheCommandThatMendsIt) {
  write("seen by all\n", 0644);
  const std::string text = refusal();
  expect_parts(text, {"chmod 600 '" + file().string() + "'"});
  expect_absent(text, {"seen by all"});
}

TEST_F(JobSecret, EmptyFileIsRefusedWithTheCommandThatMendsIt) {
  write("\n", 0600);
  expect_parts(refusal(), {"rm '" + file().string() + "'"});
}

TEST_F(JobSecret, NoHomeAndNoVariableSaysWhatToSet) {
  expect_error(ErrorCode::InvalidArgument, {"set TUTTI_JOB_SECRET"}, [] { job_secret(environment_of({})); });
}

}  // namespace
}  // namespace tutti::comm
