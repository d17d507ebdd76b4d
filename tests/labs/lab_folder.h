// A private folder with a lab's files as `tutti lab start` writes them, removed at the end.
#pragma once

#include <tutti/tests/trainer/temporary_folder.h>

#include <fstream>

namespace tutti::labs {

class LabFolder : public trainer::TemporaryFolder {
 public:
  explicit LabFolder(const std::string& lab) {
    std::filesystem::copy(std::filesystem::path(TUTTI_SOURCE) / "tools/labs/exercises" / lab, path(),
                          std::filesystem::copy_options::recursive);
  }

  void write(const std::string& name, const std::string& text) const { std::ofstream(*this / name) << text; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::app) << text;
  }
};

}  // namespace tutti::labs
