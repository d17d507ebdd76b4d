// In-process transport: the ranks are threads of one process. Frames are copied into the receiver's mailbox, so a
// sender never waits. Thread-safety: as Transport; each transport belongs to one rank's thread or threads.
#pragma once

#include <tutti/comm/transport/transport.h>

#include <memory>
#include <vector>

namespace tutti::test {

/// One connected transport per rank, in rank order. They share a network object that lives as long as any of them.
std::vector<std::unique_ptr<comm::Transport>> make_inproc_transports(int world_size);

/// One factory per rank, in rank order: ranks that are threads make their groups with it. A group's network exists from
/// the first member's make() on and is given up when all members have made theirs and closed them.
std::vector<std::shared_ptr<comm::TransportFactory>> make_inproc_factories(int world_size);

}  // namespace tutti::test
