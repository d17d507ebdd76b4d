// What the library does for a function of lab.h, as a problem for its algorithms (comm/algorithms) on the grader's
// network. Pure functions.
#pragma once

#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/schedule/schedule.h>
#include <tutti/tools/labs/lab_case.h>

#include <optional>
#include <string>

namespace tutti::labs {

/// The library's operation of that name: broadcast, reduce, all_reduce or barrier; empty for any other function.
std::optional<comm::OpKind> operation_of(const std::string& function);

/// `op` for the case's ranks, root and number of elements (none in a barrier); of rank 0.
comm::Problem problem_of(comm::OpKind op, const Case& posed);

comm::NetworkModel network_model(const NetworkSettings& settings);

}  // namespace tutti::labs
