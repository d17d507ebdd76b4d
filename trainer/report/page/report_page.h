// The page of a run: one HTML file with everything in it, no script, nothing from the network.
//
// Pure function of what read_run found. Whatever comes from outside (names of classes, options, log lines, paths) is
// escaped, and the page's own policy forbids scripts and connections besides. Size: some 100 KB and a little for each
// rank and class, however long the run was.
#pragma once

#include <tutti/trainer/report/run_data.h>

#include <string>

namespace tutti::trainer {

std::string report_page(const RunData& run);

}  // namespace tutti::trainer
