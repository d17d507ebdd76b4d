// A private folder with a lab's files as `tutti lab start` writes them, removed at the end.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace tutti::labs {

class LabFolder {
 public:
  explicit LabFolder(const std::string& lab) {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-lab-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder for a test");
    path_ = name;
    std::filesystem::copy(std::filesystem::path(TUTTI_SOURCE) / "tools/labs/exercises" / lab, path_,
                          std::filesystem::copy_options::recursive);
  }
  ~LabFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LabFolder(const LabFolder&) = delete;
  LabFolder& operator=(const LabFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::app) << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tutti::labs
