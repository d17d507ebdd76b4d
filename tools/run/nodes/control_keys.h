// Names in the control store. Only agents and their coordinator use these; elastic ranks have keys of their own there.
#pragma once

#include <string>

namespace tutti::tools {

inline constexpr char kControlJob[] = "tutti-agents";    // the control store's job id, whatever --rdzv-id says
inline constexpr char kAgentCount[] = "agents/count";    // add 1: this agent's number is one less
inline constexpr char kMailHint[] = "agents/mail/next";  // the first inbox slot that may be free
inline constexpr char kLogCount[] = "agents/log/next";   // the first entry of the log that is not written yet
inline constexpr char kMailTaken[] = "-";                // replaces a message that has been read

/// Inbox of the coordinator, written with compare_set into the first free slot: no slot stays empty before a full one.
inline std::string mail_key(long slot) { return "agents/mail/" + std::to_string(slot); }
/// What the coordinator says, entry by entry.
inline std::string log_key(long entry) { return "agents/log/" + std::to_string(entry); }
/// A number that grows with each heartbeat.
inline std::string beat_key(int agent) { return "agents/beat/" + std::to_string(agent); }

inline constexpr int kToAll = -1;  // the addressee of a log entry

}  // namespace tutti::tools
