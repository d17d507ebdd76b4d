// Files that the `tutti` binary carries with it: what a submission is compiled with, and what `tutti lab start` writes.
//
// Made at build time by tools/cmake/TuttiEmbed.cmake. Constants, of static lifetime.
#pragma once

#include <span>
#include <string_view>

namespace tutti::labs {

struct EmbeddedFile {
  std::string_view path;  // "lab.h", "driver/driver.cc"; of exercises: "reduce/text.md"
  std::string_view text;
};

/// What a submission is compiled with; paths are below tutti/tools/labs/.
std::span<const EmbeddedFile> submission_files();

/// What students get: the folders of all labs, paths begin with the lab's name; and CMakeLists.txt.in.
std::span<const EmbeddedFile> exercise_files();

/// What is compared with students' answers; paths begin with the lab's name.
std::span<const EmbeddedFile> answer_tables();

/// hints.json.
std::span<const EmbeddedFile> hint_files();

/// The style and the scripts of the page of `tutti lab show`.
std::span<const EmbeddedFile> page_files();

}  // namespace tutti::labs
