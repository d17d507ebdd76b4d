// The options of `tutti bench`, from the words of the command line to values that have been checked.
//
// Thread-safety: values and pure functions.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/bench/measure.h>
#include <tutti/tools/bench/operations.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools::bench {

struct BenchOptions {
  std::string operation = "all";
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t step_factor = 4;
  comm::DType dtype = comm::DType::Float32;
  comm::ReduceOp redop = comm::ReduceOp::Sum;
  MeasureOptions measuring{};
  comm::ProcessGroupOptions group{};
  std::filesystem::path json{};  // empty: none
  std::size_t columns = 0;       // StepLine
};

/// "4", "1K", "16M", "64MiB", "2G": K, M, G and T are powers of 1024, with or without "B" or "iB", in any case.
/// `option` stands in the text of the WrongUsage for anything else.
std::size_t parse_bytes(std::string_view text, std::string_view option);

/// "float32", ... and "sum", ...; WrongUsage lists the names.
comm::DType parse_dtype(std::string_view text);
comm::ReduceOp parse_redop(std::string_view text);

/// Throws WrongUsage for values that contradict each other or that this version cannot do.
void check_options(const BenchOptions& options);

/// Throws WrongUsage if the largest row of an operation of `table` needs more memory for the `local_ranks` ranks that
/// this machine has of a world than there is.
void check_memory(const BenchOptions& options, std::span<const Operation> table, int world_size, int local_ranks);

/// min_bytes, min_bytes * step_factor, ... up to max_bytes; min_bytes alone for a step factor of 1.
std::vector<std::size_t> sizes(const BenchOptions& options);

}  // namespace tutti::tools::bench
