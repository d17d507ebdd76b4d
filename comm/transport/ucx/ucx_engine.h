// UCX (https://openucx.org) as the engine of the bulk channels: InfiniBand, RoCE, and what else it drives.
//
// libucp is loaded when a world of several hosts asks for it, or has a card for it; nothing links it. The process stays
// as it is: UCX installs no signal handlers and no hooks of malloc or mmap, and forked children may go on without it.
//
// Payloads travel in pieces through memory that is registered once: a copy at either end, in place of a registration
// for each message. Pieces are announced, and taken by their receiver (rendezvous), so nothing gathers at a rank that
// does not read. UCX's own ports know no secret, and it does not encrypt: not for networks where strangers are. Bytes
// of theirs can make UCX 1.13 end the process.
//
// Source: Shamir et al.: UCX: An Open Source Framework for HPC Network APIs and Beyond. HOTI 2015.
// https://doi.org/10.1109/HOTI.2015.13
// Thread-safety: all may be called by any thread. Internal to comm; built without UCX, nothing can be opened.
#pragma once

#include <tutti/comm/transport/tcp/bulk.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::comm {

/// The cards with a port that is up, "mlx5_0:1", as UCX names them: of these network interfaces, or of the whole host.
std::vector<std::string> cards_that_are_up(const std::vector<std::string>& interfaces = {},
                                           const std::string& sys = "/sys");

/// "" where UCX can be used, else why not and what to do.
std::string ucx_refusal();

/// "UCX 1.13.1" once it has been loaded.
std::string ucx_version();

/// It listens at each of the `addresses`, "10.0.0.2", at ports of its own; with several, a peer's pieces come by each
/// in turn (rails). `devices`: cards, and interfaces for UCX over TCP, names with commas in between; UCX_NET_DEVICES
/// and UCX_TLS win over what would be chosen here. Throws InvalidArgument with ucx_refusal(), System if UCX finds no
/// device.
std::shared_ptr<BulkEngine> open_ucx(const std::string& devices, std::vector<std::string> addresses);

}  // namespace tutti::comm
