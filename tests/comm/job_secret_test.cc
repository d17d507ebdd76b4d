#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/wire/job_secret.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

class JobSecret : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tutti_job_secret_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    home_ = name;
  }
  void TearDown() override { fs::remove_all(home_); }

  Environment environment() const {
    return [home = home_.string()](const std::string& name) -> std::optional<std::string> {
      if (name == "HOME") return home;
      return std::nullopt;
    };
  }
  fs::path file() const { return home_ / ".config" / "tutti" / "job_secret"; }

  void write(const std::string& text, mode_t mode) const {
    fs::create_directories(file().parent_path());
    std::ofstream(file()) << text;
    ASSERT_EQ(::chmod(file().c_str(), mode), 0);
  }

  std::string refusal() const {
    try {
      job_secret(environment());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
    ADD_FAILURE() << "the file was accepted";
    return {};
  }

  fs::path home_;
};

TEST_F(JobSecret, NewOnesAre64HexDigitsAndDiffer) {
  const std::string one = new_job_secret();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, new_job_secret());
}

TEST_F(JobSecret, VariableWins) {
  write("from the file\n", 0600);
  const Environment variable = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TUTTI_JOB_SECRET") return "from the variable";
    return std::nullopt;
  };
  EXPECT_EQ(job_secret(variable), "from the variable");
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
  std::vector<std::thread> ranks;
  for (std::string& secret : secrets) ranks.emplace_back([&] { secret = job_secret(environment()); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(std::set<std::string>(secrets.begin(), secrets.end()).size(), 1u);
}

TEST_F(JobSecret, AFileOrFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write("written by hand\n", 0600);
  for (const fs::path& path : {file(), file().parent_path()}) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    EXPECT_NE(refusal().find(path.string() + " belongs to user 65534, not to this one (0)"), std::string::npos);
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(job_secret(environment()), "written by hand");
}

TEST_F(JobSecret, ShortOnesOfTheVariableAreWarnedOf) {
  std::string lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines += line; });
  const auto with = [](const std::string& secret) {
    return job_secret([secret](const std::string& name) -> std::optional<std::string> {
      return name == "TUTTI_JOB_SECRET" ? std::optional(secret) : std::nullopt;
    });
  };
  with("0123456789abcdef");
  EXPECT_EQ(lines, "");
  with("hush");
  set_log_sink({});
  EXPECT_NE(lines.find("TUTTI_JOB_SECRET has 4 characters, and can be guessed"), std::string::npos) << lines;
}

TEST_F(JobSecret, LineEndIsNotPartOfIt) {
  write("written by hand\r\n", 0600);
  EXPECT_EQ(job_secret(environment()), "written by hand");
}

TEST_F(JobSecret, FileThatOthersReadIsRefusedWithTheCommandThatMendsIt) {
  write("seen by all\n", 0644);
  const std::string text = refusal();
  EXPECT_NE(text.find("chmod 600 '" + file().string() + "'"), std::string::npos) << text;
  EXPECT_EQ(text.find("seen by all"), std::string::npos) << text;
}

TEST_F(JobSecret, EmptyFileIsRefusedWithTheCommandThatMendsIt) {
  write("\n", 0600);
  const std::string text = refusal();
  EXPECT_NE(text.find("rm '" + file().string() + "'"), std::string::npos) << text;
}

TEST_F(JobSecret, NoHomeAndNoVariableSaysWhatToSet) {
  try {
    job_secret([](const std::string&) { return std::nullopt; });
    FAIL() << "a secret came from nowhere";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_NE(std::string(error.what()).find("set TUTTI_JOB_SECRET"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::comm
