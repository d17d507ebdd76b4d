// Results, texts, numbers of the C API as values of comm, versions and the caller's operators.
#include <tutti/comm/c/boundary.h>

#include <cstdio>
#include <limits>
#include <map>
#include <new>

namespace tutti::comm::c {
namespace {

constexpr std::int64_t kLongestWaitMs = std::int64_t{10} * 365 * 24 * 3600 * 1000;

// Without a destructor: a thread's last errors may come when its others have run.
constexpr std::size_t kLongestText = 16 * 1024;
thread_local char text_of_thread[kLongestText];
thread_local const char* latest_text = "";

// An error's code is its result, less one.
static_assert(TUTTI_INVALID_ARGUMENT == static_cast<int>(ErrorCode::InvalidArgument) + 1 &&
              TUTTI_TIMEOUT == static_cast<int>(ErrorCode::Timeout) + 1 &&
              TUTTI_PEER_LOST == static_cast<int>(ErrorCode::PeerLost) + 1 &&
              TUTTI_PROTOCOL == static_cast<int>(ErrorCode::Protocol) + 1 &&
              TUTTI_MISMATCH == static_cast<int>(ErrorCode::Mismatch) + 1 &&
              TUTTI_UNAUTHORIZED == static_cast<int>(ErrorCode::Unauthorized) + 1 &&
              TUTTI_ABORTED == static_cast<int>(ErrorCode::Aborted) + 1 &&
              TUTTI_SYSTEM == static_cast<int>(ErrorCode::System) + 1 &&
              TUTTI_OPERATOR == static_cast<int>(kLastErrorCode) + 1);
tutti_result result_of(ErrorCode code) { return static_cast<int>(code) + 1; }

tutti_result keep(tutti_result result, const char* function, const char* what, GroupFate* fate) noexcept {
  std::snprintf(text_of_thread, kLongestText, "%s: %s", function, what);
  latest_text = text_of_thread;
  try {
    if (fate && result != TUTTI_INVALID_ARGUMENT) fate->note(what);
  } catch (const std::bad_alloc&) {
    latest_text = "an error whose text found no memory";
  }
  return result;
}

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
    throw Error(ErrorCode::Operator, "it returned ", status, " for a piece of ", count, " ", comm::name(dtype));
}

}  // namespace

tutti_result result_of_exception(const char* function, GroupFate* fate) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(result_of(error.code()), function, error.what(), fate);
  } catch (const std::bad_alloc&) {
    return keep(TUTTI_SYSTEM, function, "out of memory", fate);
  } catch (const std::exception& error) {
    return keep(TUTTI_INTERNAL, function, error.what(), fate);
  } catch (...) {
    return keep(TUTTI_INTERNAL, function, "an exception without a text", fate);
  }
}

void require(const void* pointer, const char* what) {
  if (!pointer) refuse(what, " is NULL");
}

std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

DType dtype_of(tutti_dtype dtype) {
  if (dtype < 0 || dtype > static_cast<int>(kLastDType))
    refuse("dtype ", dtype, " is none: there are TUTTI_FLOAT32 (", TUTTI_FLOAT32, ") to TUTTI_BOOL (", TUTTI_BOOL, ")");
  return static_cast<DType>(dtype);
}

std::size_t elements_of_all(std::size_t count, tutti_dtype dtype, int blocks) {
  const std::size_t most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const std::size_t each = size_of(dtype_of(dtype)) * static_cast<std::size_t>(blocks);
  if (each > 0 && count > most / each)
    refuse("count ", count, " of ", name(dtype_of(dtype)), ", ", blocks,
           " times, is more bytes than there is memory for");
  return count * static_cast<std::size_t>(blocks);
}

ConstBuffer input_of(const void* data, std::size_t count, tutti_dtype dtype) {
  return {data, elements_of_all(count, dtype, 1), dtype_of(dtype)};
}

Buffer output_of(void* data, std::size_t count, tutti_dtype dtype) {
  return {data, elements_of_all(count, dtype, 1), dtype_of(dtype)};
}

std::chrono::milliseconds milliseconds_of(std::int64_t number, std::int64_t least, const char* what) {
  if (number < least) refuse(what, " is ", number, " ms; at least ", least, " is needed");
  return std::chrono::milliseconds(std::min(number, kLongestWaitMs));
}

// The C numbers are comm's own, which travel in messages and so never change.
static_assert(TUTTI_FLOAT32 == static_cast<int>(DType::Float32) && TUTTI_FLOAT64 == static_cast<int>(DType::Float64) &&
              TUTTI_INT32 == static_cast<int>(DType::Int32) && TUTTI_INT64 == static_cast<int>(DType::Int64) &&
              TUTTI_UINT8 == static_cast<int>(DType::UInt8) && TUTTI_FLOAT16 == static_cast<int>(DType::Float16) &&
              TUTTI_BFLOAT16 == static_cast<int>(DType::BFloat16) && TUTTI_INT8 == static_cast<int>(DType::Int8) &&
              TUTTI_UINT16 == static_cast<int>(DType::UInt16) && TUTTI_UINT64 == static_cast<int>(DType::UInt64) &&
              TUTTI_BOOL == static_cast<int>(DType::Bool) && kLastDType == DType::Bool);

void refuse_within_operator() {
  if (depth_of_operators > 0) refuse("called by an operator's function, within the operation that runs it");
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
  refuse(gone ? "operator " + std::to_string(op) + " has been freed"
              : "operator " + std::to_string(op) + " is none: there are TUTTI_SUM (0) to TUTTI_BXOR (" +
                    std::to_string(TUTTI_BXOR) + "), and what tutti_op_create() gives");
}

}  // namespace tutti::comm::c

using namespace tutti::comm;
using namespace tutti::comm::c;

int tutti_abi_version(void) { return TUTTI_C_ABI_VERSION; }
const char* tutti_version(void) { return TUTTI_VERSION; }
const char* tutti_last_error(void) { return latest_text; }

const char* tutti_result_name(tutti_result result) {
  static constexpr const char* kNames[] = {"TUTTI_OK",           "TUTTI_INVALID_ARGUMENT", "TUTTI_TIMEOUT",
                                           "TUTTI_PEER_LOST",    "TUTTI_PROTOCOL",         "TUTTI_MISMATCH",
                                           "TUTTI_UNAUTHORIZED", "TUTTI_ABORTED",          "TUTTI_SYSTEM",
                                           "TUTTI_OPERATOR",     "TUTTI_INTERNAL"};
  static_assert(std::size(kNames) == TUTTI_INTERNAL + 1);
  return result >= TUTTI_OK && result <= TUTTI_INTERNAL ? kNames[result] : "unknown result";
}

tutti_result tutti_size_of(tutti_dtype dtype, size_t* nbytes) {
  return give("tutti_size_of", nbytes, "nbytes", [&] { return size_of(dtype_of(dtype)); });
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
    if (op >= TUTTI_SUM && op <= TUTTI_BXOR) refuse("operator ", op, " is the library's own");
    static_cast<void>(reduction_of(op));  // names one that is not there
    Operators& all = operators();
    const std::lock_guard lock(all.mutex);
    all.known.erase(op);
  });
}
