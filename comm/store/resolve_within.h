// Name look-ups that end by a deadline, which getaddrinfo(3) does not know. Internal to comm/store.
//
// A number is taken as it is. A name is looked up by a thread of its own; one that has not ended by the deadline is
// left behind and ends with the resolver's own patience. Thread-safety: functions may be called by any thread.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/wire/socket.h>

#include <functional>
#include <string>
#include <vector>

namespace tutti::comm {

/// As resolve(), for connecting. Nothing, and an `error` that says so, if the deadline passes first.
std::vector<Endpoint> resolve_within(const std::string& host, std::uint16_t port, Deadline deadline,
                                     std::string& error);

/// The addresses that a look-up found, or else why it found none.
struct LookUpResult {
  std::vector<Endpoint> endpoints;
  std::string error;
};

/// Runs `look_up`, which must own what it uses, in a thread; its result if it ends in time.
LookUpResult look_up_within(std::function<LookUpResult()> look_up, Deadline deadline);

}  // namespace tutti::comm
