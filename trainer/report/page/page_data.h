// What the page of a run shows, as JSON for page.js: results, curves of a few hundred points, a row for each rank, a
// piece of the trace. Pure function. Its size does not grow with the length of the run.
#pragma once

#include <tutti/trainer/report/run_data.h>

#include <string>

namespace tutti::trainer::page {

/// "mlp on mnist".
std::string title_of(const RunData& run);

/// Without "<", so that it may stand in a script element; bytes that are no UTF-8 are replaced.
std::string page_data(const RunData& run);

}  // namespace tutti::trainer::page
