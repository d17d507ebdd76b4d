// Results, texts, versions and the caller's operators.
#include <tutti/comm/c/boundary.h>
#include <tutti/comm/c/tutti_base.h>

#include <limits>
#include <map>

namespace tutti::comm::c {
namespace {

constexpr tutti_op kFirstOwnOperator = 1000;

struct Operators {
  std::mutex mutex;
  std::map<tutti_op, Reduction> known;
  tutti_op next = kFirstOwnOperator;
};

Operators& operators() {
  static auto* const all = new Operators;  // as the handles, never destroyed
  return *all;
}

thread_local int depth_of_operators = 0;

/// The caller's function as comm calls it, which adds the operator's name to what is thrown.
void call_operator(tutti_combine combine, void* context, void* target, const void* incoming, std::size_t count,
                   DType dtype) {
  ++depth_of_operators;
  const int status = combine(target, incoming, count, static_cast<tutti_dtype>(dtype), context);
  --depth_of_operators;
  if (status != 0)
    throw Error(ErrorCode::Operator, "it returned " + std::to_string(status) + " for a piece of " +
                                         std::to_string(count) + " " + std::string(comm::name(dtype)));
}

}  // namespace

void refuse_within_operator() {
  if (depth_of_operators > 0)
    throw Error(ErrorCode::InvalidArgument, "called by an operator's function, within the operation that runs it");
}

Reduction reduction_of(tutti_op op) {
  static_assert(TUTTI_SUM == static_cast<int>(ReduceOp::Sum) && TUTTI_AVG == static_cast<int>(ReduceOp::Avg) &&
                TUTTI_PROD == static_cast<int>(ReduceOp::Prod) && TUTTI_MIN == static_cast<int>(ReduceOp::Min) &&
                TUTTI_MAX == static_cast<int>(ReduceOp::Max) && TUTTI_BAND == static_cast<int>(ReduceOp::BAnd) &&
                TUTTI_BOR == static_cast<int>(ReduceOp::BOr) && TUTTI_BXOR == static_cast<int>(ReduceOp::BXor));
  if (op >= TUTTI_SUM && op <= TUTTI_BXOR) return static_cast<ReduceOp>(op);
  Operators& all = operators();
  const std::lock_guard lock(all.mutex);
  const auto found = all.known.find(op);
  if (found != all.known.end()) return found->second;
  const bool gone = op >= kFirstOwnOperator && op < all.next;
  throw Error(ErrorCode::InvalidArgument,
              gone ? "operator " + std::to_string(op) + " has been freed"
                   : "operator " + std::to_string(op) + " is none: there are TUTTI_SUM (0) to TUTTI_BXOR (" +
                         std::to_string(TUTTI_BXOR) + "), and what tutti_op_create() gives");
}

}  // namespace tutti::comm::c

using namespace tutti::comm;
using namespace tutti::comm::c;

int tutti_abi_version(void) { return TUTTI_C_ABI_VERSION; }
const char* tutti_version(void) { return TUTTI_VERSION; }
const char* tutti_last_error(void) { return last_text(); }

const char* tutti_result_name(tutti_result result) {
  switch (result) {
    case TUTTI_OK:
      return "TUTTI_OK";
    case TUTTI_INVALID_ARGUMENT:
      return "TUTTI_INVALID_ARGUMENT";
    case TUTTI_TIMEOUT:
      return "TUTTI_TIMEOUT";
    case TUTTI_PEER_LOST:
      return "TUTTI_PEER_LOST";
    case TUTTI_PROTOCOL:
      return "TUTTI_PROTOCOL";
    case TUTTI_MISMATCH:
      return "TUTTI_MISMATCH";
    case TUTTI_UNAUTHORIZED:
      return "TUTTI_UNAUTHORIZED";
    case TUTTI_ABORTED:
      return "TUTTI_ABORTED";
    case TUTTI_SYSTEM:
      return "TUTTI_SYSTEM";
    case TUTTI_OPERATOR:
      return "TUTTI_OPERATOR";
    case TUTTI_INTERNAL:
      return "TUTTI_INTERNAL";
    default:
      return "unknown result";
  }
}

tutti_result tutti_size_of(tutti_dtype dtype, size_t* nbytes) {
  return guarded("tutti_size_of", [&] {
    require(nbytes, "nbytes");
    *nbytes = size_of(dtype_of(dtype));
  });
}

tutti_result tutti_op_create(const char* name, tutti_combine combine, void* context, int commutative, tutti_op* op) {
  return guarded("tutti_op_create", [&] {
    require(name, "name");
    require(reinterpret_cast<const void*>(combine), "combine");
    require(op, "op");
    Reduction made = UserOp{
        .name = name,
        .combine = [combine, context](void* target, const void* incoming, std::size_t count,
                                      DType dtype) { call_operator(combine, context, target, incoming, count, dtype); },
        .commutative = commutative != 0};
    Operators& all = operators();
    const std::lock_guard lock(all.mutex);
    if (all.next == std::numeric_limits<tutti_op>::max())
      throw Error(ErrorCode::System, "there are no numbers left for operators");
    all.known.emplace(all.next, std::move(made));
    *op = all.next++;
  });
}

tutti_result tutti_op_free(tutti_op op) {
  return guarded("tutti_op_free", [&] {
    if (op >= TUTTI_SUM && op <= TUTTI_BXOR)
      throw Error(ErrorCode::InvalidArgument, "operator " + std::to_string(op) + " is the library's own");
    static_cast<void>(reduction_of(op));  // names one that is not there
    Operators& all = operators();
    const std::lock_guard lock(all.mutex);
    all.known.erase(op);
  });
}
