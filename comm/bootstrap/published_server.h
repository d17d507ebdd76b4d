// Rendezvous without MASTER_ADDR: rank 0 starts a server on a free port and publishes its address, in
// World::meeting_file, in torchrun's store (World::agent_key), or at the PMI server of World::pmi_descriptor; the
// others read it there, and connect. Or a program has brought the announcement to all ranks itself (World::invitation).
//
// What an earlier run left there leads nowhere, or to a server that says it is another rendezvous's: then a rank polls
// on, until its deadline. Internal to comm.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// Numeric addresses of this host at which ranks can reach it, best first: of `several_hosts`, or of this one alone.
std::vector<std::string> reachable_addresses(bool several_hosts);

/// Whether a text may have come from invite() (world.h).
bool is_invitation(std::string_view text);

/// The world that an invitation in options.store describes. Throws InvalidArgument if rank or size are missing or do
/// not fit it, Unauthorized if it was made under another TUTTI_JOB_SECRET.
World invited_world(const WorldOptions& options, const Environment& environment);

struct PublishedMeeting {
  std::shared_ptr<TcpStoreServer> server;  // on the rank that started it
  std::unique_ptr<TcpStore> client;
  std::string where;  // "the store 10.0.0.1:4711 (published in /home/...)"
  /// Withdraws the announcement. To be called by the first rank to know that all are there, before another can go on to
  /// the next rendezvous; and by rank 0 at the end. Any number of times; never throws.
  std::function<void()> withdraw;
};

/// Blocks until this rank is connected to rank 0's server. Throws as MeetingFile, Pmi1, TcpStoreServer and TcpStore do;
/// Timeout says what was found, Unauthorized which process published under another job secret.
PublishedMeeting meet_at_published_server(const World& world, Deadline deadline);

}  // namespace tutti::comm
