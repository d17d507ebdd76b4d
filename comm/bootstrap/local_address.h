// Which of this host's addresses other hosts can reach, where no connection tells. Internal to comm.
#pragma once

#include <string>

namespace tutti::comm {

/// The address that this host's default route leaves from, as a number; "" if it has no route to other hosts. Sends
/// nothing. Thread-safety: may be called from any thread.
std::string default_route_address();

/// True for "127.1.2.3:40913", "[::1]:40913" and the like.
bool is_loopback_endpoint(const std::string& endpoint);

}  // namespace tutti::comm
