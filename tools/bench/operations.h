// What `tutti bench` can measure: one row of a table for each operation.
//
// A row says how the operation is called, how its bytes are counted, and where each element of its result comes from;
// measuring, checking, printing and the command line follow from it. Bytes and bus bandwidth count as in nccl-tests
// (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the size of all_gather and its kind is the whole array's,
// and bus bandwidth is algorithm bandwidth times a factor that makes it comparable with the speed of the links.
//
// Thread-safety: constant data and pure functions. Ownership: the table lives as long as the program.
#pragma once

#include <tutti/comm/base/types.h>
#include <tutti/comm/process_group.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools::bench {

/// One call as one rank sees it.
struct Case {
  int rank = 0;
  int world_size = 1;
  int root = 0;
  std::size_t count = 0;  // elements each rank contributes or ends with; the whole array is world_size times that
  comm::DType dtype = comm::DType::Float32;
  comm::ReduceOp redop = comm::ReduceOp::Sum;

  std::size_t whole() const { return count * static_cast<std::size_t>(world_size); }
};

/// This rank's buffers, in elements.
struct Extents {
  std::size_t input = 0;
  std::size_t output = 0;
};

inline constexpr int kAllRanks = -1;

/// Where an element of the result comes from: element `index` of what `rank` had; with kAllRanks the reduction of
/// everybody's element `index`.
struct Origin {
  int rank = 0;
  std::size_t index = 0;
};

struct Operation {
  std::string_view name;
  comm::OpKind kind = comm::OpKind::Barrier;
  int min_ranks = 1;
  bool moves_data = true;    // false: no buffers, and one row of size 0
  bool whole_array = false;  // the size is world_size * count elements, not count
  bool reduces = false;      // has a reduction operator
  bool rooted = false;
  bool in_place = false;  // `input` is empty; `output` holds this rank's data before the call
  double time_share = 1;  // what is reported of one call's time: half of it when that is there and back
  double (*bus_factor)(int world_size) = nullptr;
  Extents (*extents)(const Case& c) = nullptr;
  Origin (*origin)(const Case& c, std::size_t index) = nullptr;
  void (*run)(comm::ProcessGroup& group, const Case& c, const comm::Buffer& input,
              const comm::Buffer& output) = nullptr;
};

/// All of them, in the order in which `all` runs them.
std::span<const Operation> operations();

/// The operations of `table` that `name` means; "all" means each. Throws WrongUsage listing the names.
std::vector<Operation> find_operations(std::span<const Operation> table, std::string_view name);

/// Case::count for a size in bytes: rounded down to whole elements for every rank, but at least one. 0 for barrier.
std::size_t count_for(const Operation& operation, std::size_t bytes, std::size_t element_bytes, int world_size);

/// The size that a row shows for this count.
std::size_t bytes_for(const Operation& operation, std::size_t count, std::size_t element_bytes, int world_size);

}  // namespace tutti::tools::bench
