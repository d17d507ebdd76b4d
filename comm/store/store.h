// Store: a small key/value service that the ranks of a job meet in.
//
// Values are byte strings. Every call takes a deadline and throws Error{Timeout} naming the key (and, for a remote
// store, host and port) when it passes; nothing is changed by a call that throws Timeout while waiting for a key. Every
// call is a StoreRequest: a store implements one function that carries out any request.
// Limits, InvalidArgument above them: 8 KiB a key, 64 MiB a value, 128 Ki keys a call.
// Thread-safety: all methods may be called from any thread at once; a thread that waits never keeps another thread of
// the same process from setting the key it waits for.
#pragma once

#include <tutti/comm/base/deadline.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// What is asked of a store, with its strings and its number. The values are those of the wire (wire_format.md).
enum class StoreOp : std::uint8_t {
  Set = 1,     // key, value, key, value, ...; all at once
  Get,         // keys; waits for all
  Wait,        // keys; waits for all
  Add,         // key; number = delta
  CompareSet,  // key, expected, desired
  Check,       // keys
  Delete,      // key
  NumKeys,     // nothing
  Append,      // key, value
  Goodbye,     // nothing, and no reply: a remote client leaves on purpose. No request of a Store
  EndWaits     // nothing: a remote client's Get or Wait is answered with the keys that are missing. Nor this one
};

/// The strings are views into the caller's bytes.
struct StoreBody {
  std::int64_t number = 0;
  std::vector<std::string_view> strings;
};

struct StoreRequest {
  StoreOp op = StoreOp::NumKeys;
  StoreBody body;
};

/// Of Get: the values. Of CompareSet: the value afterwards. Of Add: the new value; of Check and Delete: 0 or 1; of
/// NumKeys: how many.
struct StoreResult {
  std::int64_t number = 0;
  std::vector<std::string> strings;
};

class Store {
 public:
  virtual ~Store() = default;

  void set(std::string_view key, std::string_view value, Deadline deadline);

  /// Waits until `key` exists, then returns its value.
  std::string get(std::string_view key, Deadline deadline);

  /// Waits until all `keys` exist. The Timeout text lists the keys that are still missing.
  void wait(std::span<const std::string> keys, Deadline deadline);

  /// Adds `delta` to the decimal number under `key` (a missing key counts as 0) and returns the new value.
  /// Throws InvalidArgument, leaving the key as it was, when the present value is no decimal int64 or would overflow.
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline);

  /// Sets `key` to `desired` if its value equals `expected`, where a missing key equals the empty string. Returns the
  /// value that `key` has afterwards ("" if it is still missing).
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired, Deadline deadline);

  /// True if all `keys` exist now. Never waits for a key.
  bool check(std::span<const std::string> keys, Deadline deadline);

  /// True if the key existed.
  bool delete_key(std::string_view key, Deadline deadline);

  std::int64_t num_keys(Deadline deadline);

  /// Appends to the value; a missing key counts as empty.
  void append(std::string_view key, std::string_view value, Deadline deadline);

  /// Waits until all `keys` exist, then returns their values in order.
  std::vector<std::string> multi_get(std::span<const std::string> keys, Deadline deadline);

  /// Sets keys[i] to values[i], all at once as seen by other clients. Throws InvalidArgument on different lengths.
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline);

  /// Carries out any of the above. Throws InvalidArgument if a key or value is over its limit.
  StoreResult call(const StoreRequest& request, Deadline deadline);

 protected:
  /// `request` is within its limits and has the strings that its operation takes.
  virtual StoreResult do_call(const StoreRequest& request, Deadline deadline) = 0;
};

}  // namespace tutti::comm
