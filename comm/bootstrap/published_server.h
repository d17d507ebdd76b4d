// Rendezvous without MASTER_ADDR: rank 0 starts a server on a free port and publishes its address in a file
// (meeting_file.h); the others read it there, and connect. Or a program has brought the announcement to all ranks
// itself (World::invitation).
//
// What an earlier run left in the file leads nowhere, or to a server that says it is another rendezvous's: then a rank
// polls on, until its deadline. Internal to comm.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/world.h>

#include <memory>
#include <string_view>

namespace tutti::comm {

/// Whether a text may have come from invite() (world.h).
bool is_invitation(std::string_view text);

/// The world that an invitation in options.store describes. Throws InvalidArgument if rank or size are missing or do
/// not fit it, Unauthorized if it was made under another TUTTI_JOB_SECRET.
World invited_world(const WorldOptions& options, const Environment& environment);

/// By World::invitation, else World::meeting_file. Blocks until this rank is connected to rank 0's server. Throws as
/// MeetingFile, pmi_job_name, TcpStoreServer and TcpStore do; Timeout says what was found, Unauthorized which process
/// published under another job secret.
std::shared_ptr<MeetingPlace> meet_at_published_server(const World& world, Deadline deadline);

}  // namespace tutti::comm
