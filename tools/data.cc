// `tutti data`: which data sets this machine has, and whether their files are whole.

#include <tutti/tools/commands.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/mnist.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {
namespace {

using trainer::MnistFinding;
using trainer::DataSearch;

int fail(const std::string& command, const std::string& sentence) {
  std::cerr << "tutti data " << command << ": " << sentence << "\n";
  return 1;
}

void print_searched(const DataSearch& search) {
  std::cout << "  looked in:\n";
  for (const auto& folder : trainer::mnist_folders(search)) std::cout << "    " << folder.string() << "\n";
}

int list(const std::string& data) {
  const DataSearch search = DataSearch::from_environment(data);
  const std::optional<std::filesystem::path> folder = trainer::find_mnist(search);
  if (folder) {
    std::cout << "mnist     " << folder->string() << "\n";
  } else {
    std::cout << "mnist     not found; training uses generated digits\n";
    print_searched(search);
  }
  std::cout << "digits    generated: drawn by code from a seed, always there\n";
  return 0;
}

std::string verdict(const MnistFinding& finding) {
  if (!finding.error.empty()) return "damaged: " + finding.error;
  if (!finding.present) return "missing";
  if (finding.count != finding.expected_count) {
    return "incomplete: " + std::to_string(finding.count) + " entries instead of " +
           std::to_string(finding.expected_count);
  }
  const std::string entries = std::to_string(finding.count) + " entries";
  if (finding.expected_md5.empty()) return "ok, " + entries;
  if (finding.published()) return "ok, " + entries + ", the published file (md5 " + finding.md5 + ")";
  return "readable, " + entries + ", but not the published file (md5 " + finding.md5 + ", published " +
         finding.expected_md5 + ")";
}

int verify(const std::string& data) {
  const DataSearch search = DataSearch::from_environment(data);
  const std::optional<std::filesystem::path> folder = trainer::find_mnist(search);
  if (!folder) {
    const int status = fail("verify", "no MNIST files found; name their folder with --data");
    print_searched(search);
    return status;
  }
  int bad = 0;
  std::cout << folder->string() << "\n";
  for (const MnistFinding& finding : trainer::verify_mnist(*folder)) {
    std::cout << "  " << finding.file << ": " << verdict(finding) << "\n";
    if (!finding.readable()) ++bad;
  }
  std::cout << std::flush;
  if (bad == 0) return 0;
  return fail("verify", std::to_string(bad) + " of the 4 files in " + folder->string() + " cannot be used");
}

// Runs `action`, whose exceptions say what is wrong with the data.
int guarded(const std::string& command, int (*action)(const std::string&), const std::string& data) {
  try {
    return action(data);
  } catch (const std::exception& error) {
    return fail(command, error.what());
  }
}

}  // namespace

void add_data_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("data", "List the data sets that are found, and check their files");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, int (*action)(const std::string&)) {
    auto data = std::make_shared<std::string>();
    CLI::App* sub = command->add_subcommand(name, description);
    sub->add_option("--data", *data, "The folder to look in; else TUTTI_DATA, ./data/mnist and the user's cache");
    sub->callback([=, &status] { status = guarded(name, action, *data); });
  };
  add("list", "Where each data set was found", list);
  add("verify", "Read every file of MNIST and compare it with what it must hold", verify);
}

}  // namespace tutti::tools
