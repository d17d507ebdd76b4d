// `tutti lab`: the exercises. list, start, check.

#include <tutti/tools/commands.h>
#include <tutti/tools/labs/catalogue.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

struct LabOptions {
  std::string lab;
  std::string folder;
  std::string json;

  fs::path path() const { return folder.empty() ? fs::path(lab) : fs::path(folder); }
};

int list_labs() {
  for (const labs::Lab& lab : labs::all_labs()) std::printf("%-14s %s\n", lab.name.c_str(), lab.title.c_str());
  std::printf(
      "\nBegin with 'tutti lab start NAME': it writes a text, a skeleton and a CMakeLists.txt into the folder NAME.\n");
  return 0;
}

int start_lab(const LabOptions& options) {
  const labs::Lab lab = labs::find_lab(options.lab);
  for (const fs::path& file : labs::start(lab, options.path())) std::printf("wrote %s\n", file.c_str());
  const std::string folder = options.folder.empty() ? "" : " " + options.folder;
  std::printf("\nRead %s, then fill in the skeleton. Whenever you like:\n\n    tutti lab check %s%s\n",
              (options.path() / "text.md").c_str(), lab.name.c_str(), folder.c_str());
  return 0;
}

// One line on a terminal that the next one replaces; nothing elsewhere.
void show_progress(const std::string& what) {
  if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s ...", what.c_str());
}
void end_progress() {
  if (::isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
}

int check_lab(const LabOptions& options) {
  const labs::Lab lab = labs::find_lab(options.lab);
  const labs::Report report = labs::check(lab, options.path(), show_progress);
  end_progress();
  if (options.json == "-") {
    std::cout << labs::json_of(report);
  } else {
    labs::print(std::cout, report);
    if (!options.json.empty()) {
      std::ofstream file(options.json);
      file << labs::json_of(report);
      file.close();
      if (!file) throw std::runtime_error("cannot write " + options.json);
    }
  }
  std::cout << std::flush;
  return report.passed() ? 0 : 1;
}

template <typename Action>
int guarded(const char* command, Action action) {
  try {
    return action();
  } catch (const std::invalid_argument& error) {
    end_progress();
    std::cerr << "tutti lab " << command << ": " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    end_progress();
    std::cerr << "tutti lab " << command << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace

void add_lab_command(CLI::App& app, int& status) {
  CLI::App* lab = app.add_subcommand("lab", "Exercises: write a collective by yourself, and have it graded");
  lab->require_subcommand(1);
  auto options = std::make_shared<LabOptions>();
  lab->add_subcommand("list", "Say which exercises there are")->callback([&status] {
    status = guarded("list", list_labs);
  });
  CLI::App* start = lab->add_subcommand("start", "Write the text and the skeleton of an exercise into a folder");
  CLI::App* check = lab->add_subcommand("check", "Compile and grade the solution in a folder");
  for (CLI::App* command : {start, check}) {
    command->add_option("LAB", options->lab, "name of the exercise: tutti lab list")->required();
    command->add_option("DIR", options->folder, "the folder; without it the exercise's name");
  }
  check->add_option("--json", options->json, "write what was found to this file too; - for standard output alone");
  start->callback([options, &status] { status = guarded("start", [&] { return start_lab(*options); }); });
  check->callback([options, &status] { status = guarded("check", [&] { return check_lab(*options); }); });
}

}  // namespace tutti::tools
