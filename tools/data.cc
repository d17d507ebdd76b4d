// `tutti data`: which data sets this machine has, whether their files are whole, and where to get MNIST.

#include <tutti/tensor/thread_pool.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/fetch_mnist.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/folder_data.h>
#include <tutti/trainer/data/mnist.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tutti::tools {
namespace {

using trainer::DataSearch;
using trainer::MnistFinding;

int fail(const std::string& command, const std::string& sentence) {
  std::cerr << "tutti data " << command << ": " << sentence << "\n";
  return 1;
}

using Folder = std::optional<std::filesystem::path>;

// Where MNIST is. A named folder that holds other things is no error here.
Folder mnist_folder(const DataSearch& search) {
  try {
    return trainer::find_mnist(search);
  } catch (const trainer::DataError&) {
    return std::nullopt;
  }
}

void print_places(const std::vector<std::filesystem::path>& places) {
  std::cout << "  looked in:\n";
  for (const auto& place : places) std::cout << "    " << place.string() << "\n";
}

std::string described(const trainer::ImageFolder& folder) {
  return std::to_string(folder.files.size()) + " pictures in " + std::to_string(folder.classes.size()) + " classes";
}

// A folder that is named holds MNIST, or pictures, or is an error.
int list_named(const DataSearch& search) {
  if (const Folder mnist = mnist_folder(search)) {
    std::cout << "mnist     " << mnist->string() << "\n";
    return 0;
  }
  const std::filesystem::path folder = trainer::find_image_folder(search).value();
  std::cout << "mercer    " << folder.string() << ": " << described(trainer::list_image_folder(folder)) << "\n";
  return 0;
}

int list(const std::string& data) {
  const DataSearch search = DataSearch::from_environment(data);
  if (!data.empty()) return list_named(search);
  if (const Folder mnist = trainer::find_mnist(search)) {
    std::cout << "mnist     " << mnist->string() << "\n";
  } else {
    std::cout << "mnist     not found; training uses generated digits\n";
    print_places(trainer::mnist_folders(search));
  }
  if (const Folder mercer = trainer::find_image_folder(search)) {
    std::cout << "mercer    " << mercer->string() << ": " << described(trainer::list_image_folder(*mercer)) << "\n";
  } else {
    std::cout << "mercer    not found; training uses generated scenes\n";
    print_places(trainer::image_folder_places(search));
  }
  std::cout << "digits    generated: drawn by code from a seed, always there\n"
            << "scenes    generated: painted by code from a seed, always there\n";
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

int verify_mnist_files(const std::filesystem::path& folder) {
  int bad = 0;
  std::cout << folder.string() << "\n";
  for (const MnistFinding& finding : trainer::verify_mnist(folder)) {
    std::cout << "  " << finding.file << ": " << verdict(finding) << "\n";
    if (!finding.readable()) ++bad;
  }
  std::cout << std::flush;
  if (bad == 0) return 0;
  return fail("verify", std::to_string(bad) + " of the 4 files in " + folder.string() + " cannot be used");
}

int verify_pictures(const std::filesystem::path& path) {
  const trainer::ImageFolder folder = trainer::list_image_folder(path);
  tensor::set_num_threads(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64));
  const auto bad = trainer::find_bad_images(folder);
  std::cout << path.string() << "\n";
  for (const trainer::BadImage& image : bad) std::cout << "  " << image.path << ": " << image.reason << "\n";
  for (const std::string& name : folder.ignored) std::cout << "  " << name << ": ignored, no picture by its name\n";
  std::cout << "  " << described(folder) << ", " << bad.size() << " of them cannot be used\n" << std::flush;
  if (bad.empty()) return 0;
  return fail("verify", std::to_string(bad.size()) + " of the " + std::to_string(folder.files.size()) +
                            " pictures in " + path.string() + " cannot be used");
}

int verify(const std::string& data) {
  const DataSearch search = DataSearch::from_environment(data);
  const Folder mnist = mnist_folder(search);
  // What holds MNIST in a folder of its own (torchvision's layout) would look like pictures, too.
  const Folder pictures = mnist && !data.empty() ? std::nullopt : trainer::find_image_folder(search);
  if (!mnist && !pictures) {
    const int status = fail("verify", "no MNIST files and no folder of pictures found; name their folder with --data");
    print_places(trainer::mnist_folders(search));
    print_places(trainer::image_folder_places(search));
    return status;
  }
  const int first = mnist ? verify_mnist_files(*mnist) : 0;
  const int second = pictures ? verify_pictures(*pictures) : 0;
  return std::max(first, second);
}

/// Where training finds it: $TUTTI_DATA/mnist, else in the user's cache.
std::filesystem::path folder_to_fetch_into() {
  const DataSearch search = DataSearch::from_environment({});
  return search.tutti_data.empty() ? search.cache_home / "tutti" / "mnist" : search.tutti_data / "mnist";
}

void add_fetch_command(CLI::App& command, int& status) {
  const auto options = std::make_shared<FetchOptions>();
  options->mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                      "https://storage.googleapis.com/cvdf-datasets/mnist/"};
  const auto patience = std::make_shared<int>(static_cast<int>(options->patience.count()));
  CLI::App* sub = command.add_subcommand("fetch", "Download a data set; of several ranks one on each file system does");
  sub->add_option("NAME", "mnist")->required()->check(CLI::IsMember({"mnist"}));
  sub->add_option("--to", options->folder, "The folder to write into [$TUTTI_DATA/mnist, else the user's cache]");
  sub->add_option("--mirror", options->mirrors, "A server's folder instead of the known ones; several: in this order");
  sub->add_option("--patience", *patience, "Seconds without a byte, then the next server is asked")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  sub->callback([=, &status] {
    if (options->folder.empty()) options->folder = folder_to_fetch_into();
    options->patience = std::chrono::seconds(*patience);
    status = status_of("tutti data fetch", [&] {
      fetch_mnist(*options);
      std::cout << "mnist     " << options->folder.string() << "\n";
      return 0;
    });
  });
}

}  // namespace

void add_data_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("data", "List the data sets that are found, check their files, fetch them");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, int (*action)(const std::string&)) {
    auto data = std::make_shared<std::string>();
    CLI::App* sub = command->add_subcommand(name, description);
    sub->add_option("--data", *data, "The folder to look in; else TUTTI_DATA, ./data and the user's cache");
    sub->callback(
        [=, &status] { status = status_of(std::string("tutti data ") + name, [&] { return action(*data); }); });
  };
  add("list", "Where each data set was found", list);
  add("verify", "Read every file and every picture; name those that cannot be used", verify);
  add_fetch_command(*command, status);
}

}  // namespace tutti::tools
