// `tutti lab`: the exercises. list, start, check, show.

#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/labs/catalogue.h>
#include <tutti/tools/labs/show/show_lab.h>
#include <tutti/trainer/checkpoint/files.h>

#include <CLI/CLI.hpp>
#include <cstdio>
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
  std::string page;
  labs::ShowOptions show{};

  fs::path new_folder() const { return folder.empty() ? fs::path(lab) : fs::path(folder); }
  /// Of a lab that was started: named, else the one here with its name, else this very folder.
  fs::path path() const {
    const bool is_here = folder.empty() && !fs::exists(lab) && fs::exists("text.md");
    return is_here ? fs::path(".") : new_folder();
  }
};

int list_labs() {
  for (const labs::Lab& lab : labs::all_labs()) std::printf("%-14s %s\n", lab.name.c_str(), lab.title.c_str());
  std::printf(
      "\nBegin with 'tutti lab start NAME': it writes a text, a skeleton and a CMakeLists.txt into the folder NAME.\n");
  return 0;
}

int start_lab(const LabOptions& options) {
  const labs::Lab lab = labs::find_lab(options.lab);
  for (const fs::path& file : labs::start(lab, options.new_folder())) std::printf("wrote %s\n", file.c_str());
  const std::string folder = options.folder.empty() ? "" : " " + comm::shell_quoted(options.folder);
  std::printf("\nRead %s, then fill in the skeleton. Whenever you like:\n\n    tutti lab check %s%s\n",
              (options.new_folder() / "text.md").c_str(), lab.name.c_str(), folder.c_str());
  return 0;
}

int check_lab(const LabOptions& options) {
  const labs::Lab lab = labs::find_lab(options.lab);
  comm::LiveLine line(stderr);
  const auto report = labs::check(lab, options.path(), [&](const std::string& what) { line.show(what + " ..."); });
  line.clear();
  if (options.json != "-") labs::print(std::cout, report);
  if (!options.json.empty()) trainer::replace_file(options.json, labs::json_of(report));
  std::cout << std::flush;
  return report.passed() ? 0 : 1;
}

int show_lab(const LabOptions& options) {
  const labs::Lab lab = labs::find_lab(options.lab);
  const fs::path file = options.page.empty() ? options.path() / "show.html" : fs::path(options.page);
  comm::LiveLine line(stderr);
  const auto page =
      labs::show_lab(lab, options.path(), options.show, [&](const std::string& what) { line.show(what + " ..."); });
  line.clear();
  trainer::replace_file(file, labs::show_page(page));
  std::printf("written to %s: open it in a browser\n", file.c_str());
  if (page.student) return 0;
  std::cout << std::flush;
  std::cerr << "tutti lab show: the page has the library's side only, since the submission could not be run:\n"
            << labs::printable(page.failure) << "\n";
  return 1;
}

template <typename Action>
int guarded(const std::string& command, const Action& action) {
  return status_of<std::invalid_argument>("tutti lab " + command, action);
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
  CLI::App* show = lab->add_subcommand("show", "Write a page that plays the messages of the solution in a folder");
  for (CLI::App* command : {start, check, show}) {
    command->add_option("LAB", options->lab, "name of the exercise: tutti lab list")->required();
    command->add_option("DIR", options->folder,
                        "the folder; without it the exercise's name, or this one when it is the exercise's");
  }
  check->add_option("--json", options->json, "write what was found to this file too; - for standard output alone");
  show->add_option("--ranks", options->show.world_size, "number of ranks, up to 16 [5]");
  show->add_option("--count", options->show.count, "elements of each rank, up to 64 [a few]");
  show->add_option("--root", options->show.root, "of broadcast and reduce [0]");
  show->add_option("--library", options->show.algorithm,
                   "the library's algorithm beside it [as the lab's, or the fastest]");
  show->add_flag("--eager", options->show.is_eager, "sends do not wait for their receiver");
  show->add_option("--output", options->page, "the file to write [DIR/show.html]");
  show->callback([options, &status] { status = guarded("show", [&] { return show_lab(*options); }); });
  start->callback([options, &status] { status = guarded("start", [&] { return start_lab(*options); }); });
  check->callback([options, &status] { status = guarded("check", [&] { return check_lab(*options); }); });
}

}  // namespace tutti::tools
