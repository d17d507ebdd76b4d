// The page of a run: one HTML file with everything in it, nothing from the network.
//
// page.js draws it from JSON (results, curves of a few hundred points, a row for each rank, a piece of the trace), and
// is the one script that the page's own policy lets run.
// Whatever comes from outside (names of classes, options, log lines, paths) becomes text there, never markup. Pure
// function of what read_run found. Size: some 100 KB and a little for each rank and class, however long the run was.
#pragma once

#include <tutti/trainer/report/run_data.h>

#include <string>

namespace tutti::trainer {

std::string report_page(const RunData& run);

}  // namespace tutti::trainer
