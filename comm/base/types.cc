#include <tutti/comm/base/types.h>

namespace tutti::comm {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return 4;
    case DType::Float64:
      return 8;
    case DType::Int32:
      return 4;
    case DType::Int64:
      return 8;
    case DType::UInt8:
      return 1;
  }
  return 0;
}

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
  }
  return "unknown reduce op";
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
  }
  return "unknown operation";
}

}  // namespace tutti::comm
