// Store: a small key/value service that the ranks of a job meet in.
//
// Values are byte strings. Every call takes a deadline and throws Error{Timeout} naming the key (and, for a remote
// store, host and port) when it passes; nothing is changed by a call that throws Timeout while waiting for a key.
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

class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value, Deadline deadline) = 0;

  /// Waits until `key` exists, then returns its value.
  virtual std::string get(std::string_view key, Deadline deadline) = 0;

  /// Waits until all `keys` exist. The Timeout text lists the keys that are still missing.
  virtual void wait(std::span<const std::string> keys, Deadline deadline) = 0;

  /// Adds `delta` to the decimal number under `key` (a missing key counts as 0) and returns the new value.
  /// Throws InvalidArgument, leaving the key as it was, when the present value is no decimal int64 or would overflow.
  virtual std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) = 0;

  /// Sets `key` to `desired` if its value equals `expected`, where a missing key equals the empty string. Returns the
  /// value that `key` has afterwards ("" if it is still missing).
  virtual std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                  Deadline deadline) = 0;

  /// True if all `keys` exist now. Never waits for a key.
  virtual bool check(std::span<const std::string> keys, Deadline deadline) = 0;

  /// True if the key existed.
  virtual bool delete_key(std::string_view key, Deadline deadline) = 0;

  virtual std::int64_t num_keys(Deadline deadline) = 0;

  /// Appends to the value; a missing key counts as empty.
  virtual void append(std::string_view key, std::string_view value, Deadline deadline) = 0;

  /// Waits until all `keys` exist, then returns their values in order.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys, Deadline deadline) = 0;

  /// Sets keys[i] to values[i], all at once as seen by other clients. Throws InvalidArgument on different lengths.
  virtual void multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) = 0;
};

}  // namespace tutti::comm
