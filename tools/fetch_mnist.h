// MNIST's four files from the first server that has them, each checked against its published MD5.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti::tools {

struct FetchOptions {
  std::filesystem::path folder;
  std::vector<std::string> mirrors;   // "https://host/path/", in the order of trying
  std::chrono::seconds patience{20};  // a server that sends nothing for so long is left for the next
};

/// Fetches what is missing, by curl(1). A file has its name only when it is whole; what a broken connection left
/// ("NAME.part") is continued by the next server or the next run. Blocks until all four are there.
///
/// Among ranks, of which every one calls it: on each file system one rank fetches, and the others wait for it.
/// Throws std::runtime_error, on every rank, that names for a file what was wrong with each server; or a file that is
/// there and is another one, which is left alone.
void fetch_mnist(const FetchOptions& options);

}  // namespace tutti::tools
