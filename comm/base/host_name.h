// The name of this host, for texts and records. Two hosts may have the same: what must tell hosts apart is
// host_identity() (transport/shm/join.h). Thread-safe.
#pragma once

#include <string>

namespace tutti::comm {

/// As gethostname(2) gives it, with its domain if it has one; "unknown-host" where it gives none.
std::string host_name();

}  // namespace tutti::comm
