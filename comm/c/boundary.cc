#include <tutti/comm/c/boundary.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <new>

namespace tutti::comm::c {
namespace {

constexpr std::int64_t kLongestWaitMs = std::int64_t{10} * 365 * 24 * 3600 * 1000;

// Without a destructor: a thread's last errors may come when its others have run.
constexpr std::size_t kLongestText = 16 * 1024;
thread_local char text_of_thread[kLongestText];
thread_local const char* latest_text = "";

tutti_result result_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return TUTTI_INVALID_ARGUMENT;
    case ErrorCode::Timeout:
      return TUTTI_TIMEOUT;
    case ErrorCode::PeerLost:
      return TUTTI_PEER_LOST;
    case ErrorCode::Protocol:
      return TUTTI_PROTOCOL;
    case ErrorCode::Mismatch:
      return TUTTI_MISMATCH;
    case ErrorCode::Unauthorized:
      return TUTTI_UNAUTHORIZED;
    case ErrorCode::Aborted:
      return TUTTI_ABORTED;
    case ErrorCode::System:
      return TUTTI_SYSTEM;
    case ErrorCode::Operator:
      return TUTTI_OPERATOR;
  }
  return TUTTI_INTERNAL;
}

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

std::size_t bytes_of(std::size_t count, tutti_dtype dtype, int blocks) {
  const std::size_t most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const std::size_t each = size_of(dtype_of(dtype)) * static_cast<std::size_t>(blocks);
  if (each > 0 && count > most / each)
    throw Error(ErrorCode::InvalidArgument, "count " + std::to_string(count) + " of " +
                                                std::string(name(dtype_of(dtype))) + ", " + std::to_string(blocks) +
                                                " times, is more bytes than there is memory for");
  return count * static_cast<std::size_t>(blocks);
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

const char* last_text() noexcept { return latest_text; }

void require(const void* pointer, const char* what) {
  if (!pointer) throw Error(ErrorCode::InvalidArgument, std::string(what) + " is NULL");
}

std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

DType dtype_of(tutti_dtype dtype) {
  if (dtype < 0 || dtype > static_cast<int>(kLastDType))
    throw Error(ErrorCode::InvalidArgument, "dtype " + std::to_string(dtype) + " is none: there are TUTTI_FLOAT32 (" +
                                                std::to_string(TUTTI_FLOAT32) + ") to TUTTI_BOOL (" +
                                                std::to_string(TUTTI_BOOL) + ")");
  return static_cast<DType>(dtype);
}

ConstBuffer input_of(const void* data, std::size_t count, tutti_dtype dtype, int blocks) {
  return {data, bytes_of(count, dtype, blocks), dtype_of(dtype)};
}

Buffer output_of(void* data, std::size_t count, tutti_dtype dtype, int blocks) {
  return {data, bytes_of(count, dtype, blocks), dtype_of(dtype)};
}

std::chrono::milliseconds milliseconds_of(std::int64_t number, std::int64_t least, const char* what) {
  if (number < least)
    throw Error(ErrorCode::InvalidArgument, std::string(what) + " is " + std::to_string(number) + " ms; at least " +
                                                std::to_string(least) + " is needed");
  return std::chrono::milliseconds(std::min(number, kLongestWaitMs));
}

// The C numbers are comm's own, which travel in messages and so never change.
static_assert(TUTTI_FLOAT32 == static_cast<int>(DType::Float32) && TUTTI_FLOAT64 == static_cast<int>(DType::Float64) &&
              TUTTI_INT32 == static_cast<int>(DType::Int32) && TUTTI_INT64 == static_cast<int>(DType::Int64) &&
              TUTTI_UINT8 == static_cast<int>(DType::UInt8) && TUTTI_FLOAT16 == static_cast<int>(DType::Float16) &&
              TUTTI_BFLOAT16 == static_cast<int>(DType::BFloat16) && TUTTI_INT8 == static_cast<int>(DType::Int8) &&
              TUTTI_UINT16 == static_cast<int>(DType::UInt16) && TUTTI_UINT64 == static_cast<int>(DType::UInt64) &&
              TUTTI_BOOL == static_cast<int>(DType::Bool) && kLastDType == DType::Bool);

}  // namespace tutti::comm::c
