#include <tutti/comm/base/types.h>

namespace tutti::comm {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "float32";
    case DType::Float64:
      return "float64";
    case DType::Int32:
      return "int32";
    case DType::Int64:
      return "int64";
    case DType::UInt8:
      return "uint8";
    case DType::Float16:
      return "float16";
    case DType::BFloat16:
      return "bfloat16";
    case DType::Int8:
      return "int8";
    case DType::UInt16:
      return "uint16";
    case DType::UInt64:
      return "uint64";
    case DType::Bool:
      return "bool";
  }
  return "unknown dtype";
}

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return "sum";
    case ReduceOp::Avg:
      return "avg";
    case ReduceOp::Prod:
      return "prod";
    case ReduceOp::Min:
      return "min";
    case ReduceOp::Max:
      return "max";
    case ReduceOp::BAnd:
      return "band";
    case ReduceOp::BOr:
      return "bor";
    case ReduceOp::BXor:
      return "bxor";
    case ReduceOp::User:
      return "user";
  }
  return "unknown reduce op";
}

std::string refusal(ReduceOp op, DType dtype) {
  if (is_defined(op, dtype)) return {};
  const std::string what = std::string(name(op)) + " of " + std::string(name(dtype));
  if (op == ReduceOp::User) return what + " has no function; pass a UserOp (reduction.h)";
  if (is_floating_point(dtype)) return what + " is not defined; it needs integers or bool";
  if (dtype == DType::Bool) return what + " is not defined; use sum (or) or prod (and)";
  return what + " has no exact result; use sum and divide as suits you";
}

std::string_view name(OpKind op) {
  switch (op) {
    case OpKind::Broadcast:
      return "broadcast";
    case OpKind::Reduce:
      return "reduce";
    case OpKind::AllReduce:
      return "all_reduce";
    case OpKind::Gather:
      return "gather";
    case OpKind::AllGather:
      return "all_gather";
    case OpKind::Scatter:
      return "scatter";
    case OpKind::Barrier:
      return "barrier";
    case OpKind::Shutdown:
      return "shutdown";
    case OpKind::Send:
      return "send";
    case OpKind::Recv:
      return "recv";
    case OpKind::ReduceScatter:
      return "reduce_scatter";
    case OpKind::AllToAll:
      return "all_to_all";
    case OpKind::GatherV:
      return "gather_v";
    case OpKind::ScatterV:
      return "scatter_v";
    case OpKind::AllGatherV:
      return "all_gather_v";
    case OpKind::Split:
      return "split";
    case OpKind::ReduceScatterV:
      return "reduce_scatter_v";
    case OpKind::AllToAllV:
      return "all_to_all_v";
  }
  return "unknown operation";
}

}  // namespace tutti::comm
