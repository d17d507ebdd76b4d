// A folder of a test's own, with the files that the test puts there.
#pragma once

#include <tutti/tests/trainer/temporary_folder.h>

#include <fstream>
#include <iterator>

namespace tutti::test {

class TestFolder : public trainer::TemporaryFolder {
 public:
  void write(const std::filesystem::path& name, const std::string& bytes) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << bytes;
  }
  std::string content(const std::filesystem::path& name) const {
    std::ifstream file(path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

}  // namespace tutti::test
