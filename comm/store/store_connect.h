// Opening an authenticated connection to a store server. Internal to comm/store.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/socket.h>

namespace tutti::comm {

/// Tries all addresses of options.host, with back-off, until one answers and accepts us. The socket does not block.
/// Throws Timeout listing the attempts; at once Unauthorized (wrong secret, job or world size) and Protocol (something
/// else listens there), when no address of the host did better.
Socket connect_to_store(const TcpStoreOptions& options, Deadline deadline);

/// Waits until one of `events` (poll(2)), an error or the deadline. False: the deadline passed.
bool poll_until(int socket, short events, Deadline deadline);

/// Connects a non-blocking socket. 0, or errno of what failed; ETIMEDOUT at the deadline, too.
int connect_until(const Socket& socket, const Endpoint& endpoint, Deadline deadline);

}  // namespace tutti::comm
