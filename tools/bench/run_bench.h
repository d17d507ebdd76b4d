// A bench run: the rows of each operation, measured within a group, and what becomes of them: the table in the manner
// of nccl-tests (comment lines begin with '#', rows hold numbers only), and the JSON file.
//
// Thread-safety: run_in_group and run_bench are collective; one thread a group. Functions that print write whole lines
// and flush, so that a row appears when it has been measured. The others are pure.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/bench/measure.h>
#include <tutti/tools/bench/operations.h>
#include <tutti/tools/bench/options.h>

#include <cstddef>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools::bench {

/// dtype and redop are names that comm owns. GB is 1e9 bytes; bandwidths are those of the median time.
struct Result {
  std::string op;
  int ranks = 1;
  std::string transport;                 // "tcp"; "none" for one rank
  std::optional<std::string> algorithm;  // empty for messages and for one rank
  bool registered = false;
  std::optional<std::string_view> dtype{};  // empty for barrier
  std::optional<std::string_view> redop{};  // empty where nothing is reduced
  std::optional<int> root{};                // empty where there is none
  std::size_t bytes = 0;
  std::size_t count = 0;
  Measurement measured;
  double algbw_gbps = 0;
  double busbw_gbps = 0;
};

/// Version, build type, ranks, transport and how it is measured; a warning if this build is slow.
void print_header(std::ostream& out, const BenchOptions& options, int ranks, const std::string& transport);

/// The operation's name, column titles and units.
void print_titles(std::ostream& out, const std::string& operation);

void print_row(std::ostream& out, const Result& result);

/// Total of wrong elements, and the average bus bandwidth of the rows that move data.
void print_footer(std::ostream& out, std::span<const Result> results);

/// The JSON file of `tutti bench --json`: {"results":[{"op","ranks","transport","algorithm","registered","dtype",
/// "redop","bytes","count","iterations","time_us":{"min","median","p99","max"},"algbw_gbps","busbw_gbps","wrong"}]}; a
/// key that does not apply is null: the algorithm of a message or of one rank, the operator where nothing is reduced,
/// the type of a barrier, `wrong` when nothing was compared.
std::string results_json(std::span<const Result> results);

/// Measures `table` at all sizes; rank 0 prints the table to `out`. An operation that needs more ranks is left out with
/// a line that says so. Returns the rows, equal on all ranks; throws what the operations throw.
std::vector<Result> run_in_group(comm::ProcessGroup& group, std::span<const Operation> table,
                                 const BenchOptions& options, std::ostream& out);

/// One rank's part from the environment to the exit status: forms the group that `World::detect` describes, measures,
/// prints, and rank 0 writes options.json. 0: done; 1: a result was wrong. Throws WrongUsage, and what has failed.
int run_bench(std::span<const Operation> table, const BenchOptions& options, std::ostream& out);

/// 1 if an element was wrong, else 0.
int exit_status(std::span<const Result> results);

}  // namespace tutti::tools::bench
