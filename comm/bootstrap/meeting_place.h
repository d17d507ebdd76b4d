// MeetingPlace: the store in which the ranks of a job meet, wherever the job's description says it is.
//
// Thread-safety: none, but the store's own. The owner keeps it as long as any rank may ask the store.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/store/tcp_store_server.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tutti::comm {

/// A store, with the server behind it on the rank that hosts it. That rank is the last to leave, up to a limit of 5 s:
/// others may still be asking the store whether all is well.
struct MeetingPlace {
  MeetingPlace() = default;
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  std::shared_ptr<TcpStoreServer> server;  // groups of this process that meet at one address share it
  std::unique_ptr<Store> client;
  /// Withdraws the announcement, if there is one. To be called by the first rank to know that all are there, before
  /// another can go on to the next rendezvous; rank 0's destructor does. Any number of times; never throws.
  std::function<void()> withdraw;
  std::string where;          // for error texts
  std::string local_address;  // this end of the connection to the store; "" in a file
};

/// Connects to a server (rank 0 starts it, unless the launcher has), to one whose address is published, or to a file.
/// Blocks until it can be reached. Throws as the constructors of TcpStore, TcpStoreServer and FileStore.
std::shared_ptr<MeetingPlace> meet(const World& world, Deadline deadline);

// --- published_server.cc: rendezvous without MASTER_ADDR. Rank 0 starts a server on a free port and publishes its
// address in a file (meeting_file.h); the others read it there, and connect. Or a program has brought the announcement
// to all ranks itself (World::invitation). What an earlier run left in the file leads nowhere, or to a server that says
// it is another rendezvous's: then a rank polls on, until its deadline.

/// By World::invitation, else World::meeting_file. Blocks until this rank is connected to rank 0's server. Throws as
/// MeetingFile, pmi_job_name, TcpStoreServer and TcpStore do; Timeout says what was found, Unauthorized which process
/// published under another job secret.
std::shared_ptr<MeetingPlace> meet_at_published_server(const World& world, Deadline deadline);

/// Whether a text may have come from invite() (world.h).
bool is_invitation(std::string_view text);

/// The world that an invitation in options.store describes. Throws InvalidArgument if rank or size are missing or do
/// not fit it, Unauthorized if it was made under another TUTTI_JOB_SECRET.
World invited_world(const WorldOptions& options, const Environment& environment);

}  // namespace tutti::comm
