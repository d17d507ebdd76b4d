// The labs that this `tutti` knows.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::labs {

/// In the order in which they are best done.
std::vector<Lab> all_labs();

/// Throws std::invalid_argument with the names there are.
Lab find_lab(const std::string& name);

/// Writes the lab's files into `folder`, which is made. Files that exist already are not touched: throws
/// std::runtime_error naming the first one, and writes nothing. Returns what was written.
std::vector<std::filesystem::path> start(const Lab& lab, const std::filesystem::path& folder);

/// Grades what is in `folder`. Throws std::runtime_error if the lab's source is not there, or this machine cannot
/// grade.
Report check(const Lab& lab, const std::filesystem::path& folder,
             const std::function<void(const std::string&)>& progress = {});

}  // namespace tutti::labs
