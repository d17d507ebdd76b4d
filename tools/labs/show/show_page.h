// The page of `tutti lab show`: one HTML file that plays the messages of a student's run and of the library's side by
// side, step by step.
//
// Everything is in the file, nothing comes from the network. A script draws and plays; the page's own policy allows
// that one script, by its hash, and nothing else, besides all that comes from a submission being data to it, or
// escaped. Size: bounded by play.h's limits, some 100 KB for the runs of the labs.
// "#step=7" at the end of its address opens it at step 7.
//
// Pure function.
#pragma once

#include <tutti/tools/labs/play.h>

#include <optional>
#include <string>

namespace tutti::labs {

struct ShowPage {
  std::string lab;                // "reduce"
  std::string setting;            // "5 ranks, 10 elements each, root 2"
  std::optional<Play> student{};  // its title is the panel's: "Your reduce"
  std::optional<Play> library{};  // where the library has something to show
  std::string failure{};          // why there is no student's run, in its words; lines are kept
};

std::string show_page(const ShowPage& page);

}  // namespace tutti::labs
