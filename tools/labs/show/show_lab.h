// `tutti lab show`: runs a submission once, traced, in the grader's sandbox and on its virtual network, and puts what
// happened beside what the library does.
//
// Blocks for a few seconds (compiling). Threads: one. A submission that does not compile, crashes or deadlocks is a
// result, not an error.
#pragma once

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/show/show_page.h>

#include <filesystem>
#include <optional>
#include <string>

namespace tutti::labs {

struct ShowOptions {
  int world_size = 5;
  std::optional<std::size_t> count{};  // elements of each rank; without it a few, as the lab needs them
  int root = 0;
  std::string algorithm{};  // the library's; empty: the lab's own where it is named after one, else the fastest
  bool is_eager = false;    // sends do not wait for their receiver
};

/// Whether there are messages to show.
bool can_show(const Lab& lab);

/// Throws std::invalid_argument for options that make no sense, and for labs without messages; std::runtime_error if
/// the lab's source is not in `folder`, or this machine cannot run submissions.
ShowPage show_lab(const Lab& lab, const std::filesystem::path& folder, const ShowOptions& options,
                  const std::function<void(const std::string&)>& progress = {});

}  // namespace tutti::labs
