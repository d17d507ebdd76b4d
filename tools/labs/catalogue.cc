#include <tutti/tools/labs/catalogue.h>
#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/grade.h>
#include <tutti/trainer/report/page/html.h>

#include <chrono>
#include <fstream>
#include <stdexcept>

namespace tutti::labs {

namespace fs = std::filesystem;

namespace {

// The folder above the program's own: an installation's, or the build's.
std::string prefix_of_this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path().string();
}

std::vector<std::pair<fs::path, std::string>> files_of(const Lab& lab, const fs::path& folder) {
  std::vector<std::pair<fs::path, std::string>> files;
  const std::string prefix = lab.name + "/";
  const fs::path build_file = folder / "CMakeLists.txt";
  for (const EmbeddedFile& file : exercise_files()) {
    if (file.path.starts_with(prefix)) files.emplace_back(folder / file.path.substr(prefix.size()), file.text);
    if (file.path == "CMakeLists.txt.in" && !lab.function.empty()) {
      files.emplace_back(build_file,
                         trainer::page::filled(file.text, {{"lab", lab.name}, {"prefix", prefix_of_this_program()}}));
    }
  }
  return files;
}

}  // namespace

Lab find_lab(const std::string& name) {
  std::string known;
  for (Lab& lab : all_labs()) {
    if (lab.name == name) return std::move(lab);
    known += (known.empty() ? "" : ", ") + lab.name;
  }
  throw std::invalid_argument("there is no lab " + name + "; there are " + known);
}

std::vector<fs::path> start(const Lab& lab, const fs::path& folder) {
  const std::vector<std::pair<fs::path, std::string>> files = files_of(lab, folder);
  for (const auto& [path, text] : files) {
    if (fs::exists(path)) {
      throw std::runtime_error(path.string() +
                               " exists already, and may hold your work: name another folder, or move it away");
    }
  }
  std::vector<fs::path> written;
  for (const auto& [path, text] : files) {
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path.string());
    written.push_back(path);
  }
  return written;
}

Report check(const Lab& lab, const fs::path& folder, const std::function<void(const std::string&)>& progress) {
  const auto begin = std::chrono::steady_clock::now();
  const CheckContext context{lab.name, folder, progress};
  Report report = lab.check != nullptr ? lab.check(context) : grade(lab, context);
  report.lab = lab.name;
  if (report.source.empty()) report.source = folder.string();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace tutti::labs
