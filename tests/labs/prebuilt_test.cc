// What all submissions are compiled with is made once for a compiler and its flags, and anew when something has
// changed.
#include <gtest/gtest.h>
#include <tutti/tools/labs/sandbox/prebuilt.h>
#include <tutti/tools/labs/sandbox/workplace.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "lab_folder.h"

namespace tutti::labs {
namespace {

/// A compiler that counts its calls, and says that it has read the header `system.h`. The cache is the test's own.
class PrebuiltTest : public testing::Test {
 protected:
  PrebuiltTest() {
    ::setenv("XDG_CACHE_HOME", cache().c_str(), 1);
    own_.write("system.h", "");
    write_compiler("");
  }
  ~PrebuiltTest() override {
    if (before_.empty()) {
      ::unsetenv("XDG_CACHE_HOME");
    } else {
      ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
  }

  std::filesystem::path cache() const { return own_.path() / "cache"; }
  std::filesystem::path compiler() const { return own_.path() / "compiler"; }

  void write_compiler(const std::string& more) const {
    own_.write("compiler", "#!/bin/sh\necho call >> " + (own_.path() / "calls").string() +
                               "\nwhile [ $# -gt 1 ]; do case $1 in\n"
                               "-o) echo made > $2 ;;\n"
                               "-MF) echo driver.o: " +
                               (own_.path() / "system.h").string() + " > $2 ;;\nesac; shift; done\n" + more);
    std::filesystem::permissions(compiler(), std::filesystem::perms::owner_all);
  }

  /// How many calls of the compiler one use costs; where it was found.
  int calls(const std::vector<std::string>& flags = {"-O0"}) {
    const auto lines = [&] {
      std::ifstream in(own_.path() / "calls");
      int count = 0;
      for (std::string line; std::getline(in, line);) ++count;
      return count;
    };
    const int begin = lines();
    const Workplace workplace;
    std::vector<std::string> command{compiler().string()};
    command.insert(command.end(), flags.begin(), flags.end());
    const Prebuilt prebuilt(command, workplace.path(), {});
    EXPECT_TRUE(std::filesystem::exists(prebuilt.driver()));
    EXPECT_TRUE(std::filesystem::exists(prebuilt.include() / "tutti/tools/labs/lab.h"));
    is_kept_ = prebuilt.driver().string().starts_with(cache().string());
    return lines() - begin;
  }

  const std::string before_ = std::getenv("XDG_CACHE_HOME") == nullptr ? "" : std::getenv("XDG_CACHE_HOME");
  const LabFolder own_{"barrier"};
  bool is_kept_ = false;
};

TEST_F(PrebuiltTest, IsMadeOnce) {
  EXPECT_EQ(calls(), 2);  // the driver, and the header
  EXPECT_TRUE(is_kept_);
  EXPECT_EQ(calls(), 0);
  EXPECT_TRUE(is_kept_);
}

TEST_F(PrebuiltTest, OtherFlagsAndAnotherCompilerMakeItAnew) {
  calls();
  EXPECT_EQ(calls({"-O2"}), 2);
  EXPECT_EQ(calls({"-O2"}), 0);
  EXPECT_EQ(calls(), 2);
  write_compiler("# of another version\n");
  EXPECT_EQ(calls(), 2);
}

TEST_F(PrebuiltTest, AHeaderThatHasChangedMakesItAnew) {
  calls();
  own_.write("system.h", "int changed;");
  EXPECT_EQ(calls(), 2);
  own_.write("system.h", "int another;");  // as long
  EXPECT_EQ(calls(), 2);
  std::ofstream(cache() / "tutti/labs/include/tutti/tools/labs/lab.h.gch") << "of a grader that was killed";
  std::filesystem::remove(cache() / "tutti/labs/origin");
  EXPECT_EQ(calls(), 2);
}

TEST_F(PrebuiltTest, WithoutACacheTheDriverIsMadeForTheOneSubmission) {
  own_.write("cache", "no folder");
  EXPECT_EQ(calls(), 1);
  EXPECT_FALSE(is_kept_);
  EXPECT_EQ(calls(), 1);
}

TEST_F(PrebuiltTest, ACompilerThatCannotMakeItIsNamed) {
  write_compiler("echo no such language; exit 1\n");
  try {
    calls();
    ADD_FAILURE() << "a compiler that fails is taken";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(compiler().string() + " cannot compile"), std::string::npos) << text;
    EXPECT_NE(text.find("no such language"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tutti::labs
