// Reduction by an operator of the caller's.
//
// Thread-safety: as the caller's function; `spare` belongs to one thread.
#pragma once

#include <tutti/comm/base/reduction.h>

#include <cstddef>
#include <vector>

namespace tutti::comm {

/// As reduce_into() of reduce.h. `incoming_first` needs memory to swap the operands, which `spare` keeps for the next
/// call. Throws Operator with the operator's name and its error's text if it throws.
void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, const UserOp& op,
                 bool incoming_first, std::vector<std::byte>& spare);

}  // namespace tutti::comm
