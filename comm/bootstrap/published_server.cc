#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/agent_store.h>
#include <tutti/comm/bootstrap/announcement.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/bootstrap/pmi1.h>
#include <tutti/comm/bootstrap/published_server.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{200};
constexpr milliseconds kFirstTry{500};    // to connect, before reading the announcement again
constexpr milliseconds kFirstSlice{150};  // of that, for each address
constexpr milliseconds kReportAfter{5000};
constexpr milliseconds kBelieved{5000};  // an announcement under another secret: rank 0 may be about to replace it
constexpr char kPmiKey[] = "tutti-";
constexpr char kInvitation[] = "tutti-invitation:";

std::string who(const World& world) {
  return "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size);
}

std::string job_of(const World& world, const std::string& nonce) { return world.job_id + "/" + nonce; }

struct Started {
  std::shared_ptr<TcpStoreServer> server;
  Announcement announcement;
};

Started start_server(const World& world) {
  Announcement announcement =
      own_announcement(world, reachable_addresses(world.local_world_size < world.world_size), 0);
  auto server = std::make_shared<TcpStoreServer>(
      TcpStoreServerOptions{.bind_address = announcement.addresses.size() == 1 ? announcement.addresses.front() : "",
                            .port = 0,
                            .job_id = job_of(world, announcement.nonce),
                            .job_secret = world.job_secret,
                            .world_size = world.world_size});
  announcement.port = server->port();
  return {std::move(server), std::move(announcement)};
}

/// Throws InvalidArgument if the announcement is of a job of another size, System if no other host can reach it.
void check_usable(const World& world, const Announcement& announcement) {
  if (announcement.world_size != world.world_size)
    throw Error(ErrorCode::InvalidArgument, who(world) + " has found " + text_of(announcement) + ", which has " +
                                                std::to_string(announcement.world_size) +
                                                " ranks: not this job; give each job a TUTTI_JOB_ID of its own");
  const std::string& first = announcement.addresses.front();
  if (is_loopback_address(first) &&
      network_of(own_announcement(world, {first}, 0).identity) != network_of(announcement.identity))
    throw Error(ErrorCode::System, who(world) + ": " + text_of(announcement) +
                                       " has no route to other hosts, so it listens on " + first +
                                       ", which this host cannot reach; set MASTER_ADDR and MASTER_PORT");
}

std::unique_ptr<TcpStore> connect_to_address(const World& world, const Announcement& announcement,
                                             const std::string& address, Deadline deadline) {
  return std::make_unique<TcpStore>(TcpStoreOptions{.host = address,
                                                    .port = announcement.port,
                                                    .job_id = job_of(world, announcement.nonce),
                                                    .job_secret = world.job_secret,
                                                    .rank = world.rank,
                                                    .world_size = world.world_size},
                                    deadline);
}

/// Tries the announcement's addresses in turn, ever longer, until `deadline`: one that drops packets must not use up
/// the others' time. Throws the last one's error.
std::unique_ptr<TcpStore> connect_as_announced(const World& world, const Announcement& announcement,
                                               Deadline deadline) {
  const auto& addresses = announcement.addresses;
  if (addresses.size() == 1) return connect_to_address(world, announcement, addresses.front(), deadline);
  for (milliseconds slice = kFirstSlice;; slice *= 2) {
    for (const std::string& address : addresses) {
      try {
        return connect_to_address(world, announcement, address, deadline.earlier_of(Deadline::after(slice)));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Timeout || deadline.expired()) throw;
      }
    }
  }
}

std::string where_text(const Announcement& announcement, const std::string& published) {
  return "the store " + host_and_port(announcement.addresses.front(), announcement.port) + " (published " + published +
         ")";
}

/// Another rank's search: polls the board.
class Seeker {
 public:
  Seeker(const World& world, const AnnouncementBoard& board, Deadline deadline)
      : world_(world), board_(board), deadline_(deadline) {}

  /// The announcement whose server took this rank.
  Announcement find(std::unique_ptr<TcpStore>& client) {
    for (;;) {
      const auto found = board_.look();
      note(found);
      if (found && found->reading == Reading::Foreign)
        throw Error(ErrorCode::Protocol, who(world_) + ": the ranks are to meet in " + board_.where() + ", but " +
                                             state_ + "; remove it, or name another folder by TUTTI_MEET_DIR");
      if (found && found->reading == Reading::Whole) {
        client = try_connect(found->announcement);
        if (client) return found->announcement;
      }
      report();
      if (deadline_.expired()) give_up();
      std::this_thread::sleep_for(std::min(pause_, deadline_.remaining()));
      pause_ = std::min(pause_ * 2, kLongestPause);
    }
  }

 private:
  void note(const std::optional<AnnouncementBoard::Found>& found) {
    if (!found) {
      state_ = "it is not there";
    } else if (found->reading == Reading::HalfWritten) {
      state_ = "it is half written";
    } else if (found->reading == Reading::Foreign) {
      state_ = "it holds something else: " + found->begins_with;
    } else if (found->reading == Reading::OtherSecret) {
      state_ = "it was written with another job secret, by " + text_of(found->announcement);
      refuse_lasting("the announcement", found->announcement.nonce, ErrorCode::Unauthorized);
    }
  }

  /// Nothing where the server does not answer, or belongs to another rendezvous: an earlier run's, most likely.
  std::unique_ptr<TcpStore> try_connect(const Announcement& announcement) {
    try {
      check_usable(world_, announcement);
      auto client = connect_as_announced(world_, announcement, deadline_.earlier_of(Deadline::after(try_for_)));
      state_.clear();
      return client;
    } catch (const Error& error) {
      state_ = text_of(announcement) + ": " + error.what();
      if (error.code() != ErrorCode::Timeout) refuse_lasting("the announcement", announcement.nonce, error.code());
      try_for_ = std::min(try_for_ * 2, milliseconds(30'000));
      return nullptr;
    }
  }

  /// An announcement that does not change is no leftover that rank 0 is about to replace.
  void refuse_lasting(const std::string& what, const std::string& nonce, ErrorCode code) {
    if (nonce != refused_) {
      refused_ = nonce;
      refused_since_ = Clock::now();
    } else if (Clock::now() - refused_since_ >= kBelieved) {
      throw Error(code, who(world_) + " cannot meet rank 0 by " + what + " in " + board_.where() + ": " + state_ +
                            (code == ErrorCode::Unauthorized
                                 ? "; all ranks need the same TUTTI_JOB_SECRET, or the same ~/.config/tutti/job_secret"
                                 : ""));
    }
  }

  void report() {
    if (reported_ || Clock::now() - start_ < kReportAfter) return;
    reported_ = true;
    log(LogLevel::Warn, who(world_) + " (" + world_.detected_from + ") waits for rank 0 to publish its address in " +
                            board_.where() + ": " + state_);
  }

  [[noreturn]] void give_up() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    throw Error(ErrorCode::Timeout, who(world_) + " (" + world_.detected_from +
                                        "): rank 0's address was not found in " + board_.where() + " within " +
                                        std::to_string(static_cast<int>(seconds + 0.5)) + " s: " + state_ + ". " +
                                        board_.advice());
  }

  using Clock = std::chrono::steady_clock;
  const World& world_;
  const AnnouncementBoard& board_;
  const Deadline deadline_;
  const Clock::time_point start_ = Clock::now();
  std::string state_;
  std::string refused_;
  Clock::time_point refused_since_{};
  milliseconds pause_ = kFirstPause;
  milliseconds try_for_ = kFirstTry;
  bool reported_ = false;
};

PublishedMeeting meet_by_board(const World& world, const std::shared_ptr<AnnouncementBoard>& board, Deadline deadline) {
  PublishedMeeting meeting;
  Announcement announcement;
  if (world.rank == 0) {
    auto [server, own] = start_server(world);
    announcement = std::move(own);
    meeting.server = std::move(server);
    board->publish(announcement);
    meeting.withdraw = [board, nonce = announcement.nonce] { board->withdraw(nonce); };
    try {
      meeting.client = connect_as_announced(world, announcement, deadline);
    } catch (const Error&) {
      meeting.withdraw();
      throw;
    }
  } else {
    announcement = Seeker(world, *board, deadline).find(meeting.client);
    meeting.withdraw = [board, nonce = announcement.nonce] { board->withdraw(nonce); };
  }
  meeting.where = where_text(announcement, "in " + board->where());
  return meeting;
}

/// Rank 0 takes the first key that is free, the others the last that is set: there is one for each rendezvous of these
/// ranks.
PublishedMeeting meet_by_pmi(const World& world, Deadline deadline) {
  finalize_pmi_at_exit(world.pmi_descriptor);
  Pmi1 pmi(world.pmi_descriptor, deadline);
  PublishedMeeting meeting;
  meeting.withdraw = [] {};
  const auto key = [](int number) { return kPmiKey + std::to_string(number); };
  int free = 0;
  if (world.rank == 0) {
    auto [server, announcement] = start_server(world);
    meeting.server = std::move(server);
    while (pmi.get(key(free), deadline)) ++free;
    pmi.put(key(free), encode_announcement(announcement, world.job_secret, ';'), deadline);
  }
  pmi.barrier(deadline);
  std::optional<std::string> text;
  for (free = 0; const auto next = pmi.get(key(free), deadline); ++free) text = next;
  Announcement announcement;
  const Reading reading = decode_announcement(text.value_or(""), world.job_secret, announcement, ';');
  if (reading == Reading::OtherSecret)
    throw Error(ErrorCode::Unauthorized, who(world) + ": " + text_of(announcement) +
                                             " has another job secret; all ranks need the same TUTTI_JOB_SECRET, or "
                                             "the same ~/.config/tutti/job_secret");
  if (reading != Reading::Whole)
    throw Error(ErrorCode::Protocol, who(world) + " finds no address of rank 0 at mpiexec's PMI server, job " +
                                         pmi.job() + "; set TUTTI_MEET_DIR to a folder that all hosts see");
  check_usable(world, announcement);
  meeting.client = connect_as_announced(world, announcement, deadline);
  meeting.where = where_text(announcement, "by PMI, job " + pmi.job());
  return meeting;
}

/// The servers of invitations that no rank of this process has followed yet, by nonce.
struct Invitations {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<TcpStoreServer>> servers;
};

Invitations& invitations() {
  static auto& all = *new Invitations;  // never destroyed: groups may be formed after main()
  return all;
}

PublishedMeeting meet_by_invitation(const World& world, Deadline deadline) {
  PublishedMeeting meeting;
  meeting.withdraw = [] {};
  Announcement announcement;
  decode_announcement(world.invitation, world.job_secret, announcement, ';');
  {
    const std::lock_guard lock(invitations().mutex);
    const auto own = invitations().servers.extract(announcement.nonce);
    if (own) meeting.server = own.mapped();
  }
  meeting.client = connect_as_announced(world, announcement, deadline);
  meeting.where = where_text(announcement, "by invitation");
  return meeting;
}

}  // namespace

std::string invite(int world_size, bool one_host, const Environment& environment) {
  if (world_size < 1)
    throw Error(ErrorCode::InvalidArgument, "an invitation for " + std::to_string(world_size) + " ranks; one is least");
  const std::string known = environment("TUTTI_JOB_SECRET").value_or("");
  World world;
  world.world_size = world_size;
  world.local_world_size = one_host ? world_size : 0;
  world.job_id = "invited";
  world.job_secret = known.empty() ? new_job_secret() : known;
  auto [server, announcement] = start_server(world);
  const std::lock_guard lock(invitations().mutex);
  if (world_size > 1) invitations().servers[announcement.nonce] = std::move(server);
  return kInvitation + (known.empty() ? world.job_secret : "") + ":" +
         encode_announcement(announcement, world.job_secret, ';');
}

bool is_invitation(std::string_view text) { return text.starts_with(kInvitation); }

World invited_world(const WorldOptions& options, const Environment& environment) {
  const auto refuse = [](ErrorCode code, const std::string& why) { throw Error(code, "the ranks' invitation " + why); };
  const std::string text = options.store->substr(std::string_view(kInvitation).size());
  const std::size_t colon = text.find(':');
  World world;
  world.job_secret = text.substr(0, colon);
  if (world.job_secret.empty()) world.job_secret = environment("TUTTI_JOB_SECRET").value_or("");
  world.invitation = colon == std::string::npos ? "" : text.substr(colon + 1);
  Announcement announcement;
  const Reading reading = decode_announcement(world.invitation, world.job_secret, announcement, ';');
  if (reading == Reading::OtherSecret)
    refuse(ErrorCode::Unauthorized, "of " + text_of(announcement) +
                                        " was made with TUTTI_JOB_SECRET, which this rank lacks or has another one of; "
                                        "set the same on all ranks, or on none");
  if (reading != Reading::Whole)
    refuse(ErrorCode::InvalidArgument, "is not what invite() returned: " + printable(text.substr(colon + 1), 100));
  world.rank = options.rank.value_or(-1);
  world.world_size = options.world_size.value_or(-1);
  if (world.rank < 0 || world.rank >= announcement.world_size || world.world_size != announcement.world_size)
    refuse(ErrorCode::InvalidArgument, "is for " + std::to_string(announcement.world_size) +
                                           " ranks, but this one says it is rank " + std::to_string(world.rank) +
                                           " of " + std::to_string(world.world_size) + " (-1: not set)");
  const bool one_host = is_loopback_address(announcement.addresses.front());
  world.local_rank = one_host ? world.rank : 0;
  world.local_world_size = one_host ? world.world_size : 1;
  world.job_id = announcement.job;
  world.detected_from = "an invitation";
  return world;
}

std::vector<std::string> reachable_addresses(bool several_hosts) {
  std::vector<std::string> addresses;
  for (const ChosenAddress& one : own_addresses(several_hosts, {}).chosen) addresses.push_back(one.address);
  return addresses;
}

PublishedMeeting meet_at_published_server(const World& world, Deadline deadline) {
  if (!world.invitation.empty()) return meet_by_invitation(world, deadline);
  if (!world.agent_key.empty()) return meet_by_board(world, std::make_shared<AgentStore>(world), deadline);
  if (world.meeting_file.empty()) return meet_by_pmi(world, deadline);
  return meet_by_board(world, std::make_shared<MeetingFile>(world.meeting_file, world.job_secret), deadline);
}

}  // namespace tutti::comm
