// The table of `tutti bench`, in the manner of nccl-tests: comment lines begin with '#', rows hold numbers only.
//
// Thread-safety: one thread uses a stream. Each function writes whole lines and flushes, so that a row appears when it
// has been measured.
#pragma once

#include <tutti/tools/bench/options.h>
#include <tutti/tools/bench/result.h>

#include <ostream>
#include <span>
#include <string>

namespace tutti::tools::bench {

/// Version, build type, ranks, transport and how it is measured; a warning if this build is slow.
void print_header(std::ostream& out, const BenchOptions& options, int ranks, const std::string& transport);

/// The operation's name, column titles and units.
void print_titles(std::ostream& out, const std::string& operation);

void print_row(std::ostream& out, const Result& result);

/// Total of wrong elements, and the average bus bandwidth of the rows that move data.
void print_footer(std::ostream& out, std::span<const Result> results);

}  // namespace tutti::tools::bench
