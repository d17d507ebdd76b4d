// The grader's folders: gone with it, also where it was killed, as soon as another grader comes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <tutti/tools/labs/sandbox/workplace.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "lab_folder.h"

namespace tutti::labs {
namespace {

/// The system's temporary folder is one of the test's own.
class WorkplaceTest : public testing::Test {
 protected:
  WorkplaceTest() { ::setenv("TMPDIR", own_.path().c_str(), 1); }
  ~WorkplaceTest() override {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }

  std::set<std::filesystem::path> folders() const {
    std::set<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(own_.path())) found.insert(entry.path());
    return found;
  }

  const std::string before_ = std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR");
  const LabFolder own_{"barrier"};
};

TEST_F(WorkplaceTest, IsRemovedWithItsOwner) {
  const auto before = folders();
  {
    const Workplace workplace;
    std::ofstream(workplace.path() / "program") << "a file";
    EXPECT_EQ(folders().size(), before.size() + 1);
  }
  EXPECT_EQ(folders(), before);
}

TEST_F(WorkplaceTest, OfAnOwnerThatWasKilledIsRemovedByTheNextAndNoOther) {
  const auto before = folders();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t killed = ::fork();
  ASSERT_GE(killed, 0);
  if (killed == 0) {
    const Workplace workplace;
    std::ofstream(workplace.path() / "program") << "a file";
    (void)!::write(ends[1], "x", 1);
    for (;;) ::pause();
  }
  char ready = 0;
  ASSERT_EQ(::read(ends[0], &ready, 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
  const Workplace beside;  // while the other lives
  EXPECT_EQ(folders().size(), before.size() + 2);
  ::kill(killed, SIGKILL);
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  std::filesystem::create_directory(own_.path() / "tutti-lab-of-others");
  const Workplace next;
  EXPECT_EQ(folders().size(), before.size() + 3);
  EXPECT_TRUE(std::filesystem::exists(beside.path()));
  EXPECT_TRUE(std::filesystem::exists(next.path()));
}

}  // namespace
}  // namespace tutti::labs
