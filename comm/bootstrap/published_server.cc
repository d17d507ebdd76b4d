#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>

#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{200};
constexpr milliseconds kFirstTry{500};    // to connect, before reading the announcement again
constexpr milliseconds kFirstSlice{150};  // of that, for each address
constexpr milliseconds kReportAfter{5000};
constexpr milliseconds kBelieved{5000};  // an announcement under another secret: rank 0 may be about to replace it
constexpr char kInvitation[] = "tutti-invitation:";

std::string job_of(const World& world, const std::string& nonce) { return world.job_id + "/" + nonce; }

std::pair<std::shared_ptr<TcpStoreServer>, Announcement> start_server(const World& world) {
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
    refuse(rank_text(world), " has found ", text_of(announcement), ", which has ", announcement.world_size,
           " ranks: not this job; give each job a TUTTI_JOB_ID of its own");
  const std::string& first = announcement.addresses.front();
  if (is_loopback_address(first) && network_of(host_identity()) != network_of(announcement.identity))
    throw Error(ErrorCode::System, rank_text(world), ": ", text_of(announcement),
                " has no route to other hosts, so it listens on ", first,
                ", which this host cannot reach; set MASTER_ADDR and MASTER_PORT");
}

/// Tries the announcement's addresses in turn, ever longer, until `deadline`: one that drops packets must not use up
/// the others' time. Throws the last one's error.
std::unique_ptr<TcpStore> connect_as_announced(const World& world, const Announcement& announcement,
                                               Deadline deadline) {
  TcpStoreOptions options{.host = announcement.addresses.front(),
                          .port = announcement.port,
                          .job_id = job_of(world, announcement.nonce),
                          .job_secret = world.job_secret,
                          .rank = world.rank,
                          .world_size = world.world_size};
  if (announcement.addresses.size() == 1) return std::make_unique<TcpStore>(options, deadline);
  for (milliseconds slice = kFirstSlice;; slice *= 2) {
    for (const std::string& address : announcement.addresses) {
      options.host = address;
      try {
        return std::make_unique<TcpStore>(options, deadline.earlier_of(Deadline::after(slice)));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Timeout || deadline.expired()) throw;
      }
    }
  }
}

std::shared_ptr<MeetingPlace> place_of(const Announcement& announcement, const std::string& published,
                                       std::unique_ptr<TcpStore> client) {
  auto place = std::make_shared<MeetingPlace>();
  place->where = "the store " + host_and_port(announcement.addresses.front(), announcement.port) + " (published " +
                 published + ")";
  place->local_address = client->local_address();
  place->client = std::move(client);
  return place;
}

/// Another rank's search: polls the file.
class Seeker {
 public:
  Seeker(const World& world, const MeetingFile& file, Deadline deadline)
      : world_(world), file_(file), deadline_(deadline) {}

  /// The announcement whose server took this rank.
  Announcement find(std::unique_ptr<TcpStore>& client) {
    for (;;) {
      const auto found = file_.look();
      state_ = found ? found->state : "it is not there";
      if (found && found->reading == Reading::OtherSecret)
        refuse_lasting(found->announcement.nonce, ErrorCode::Unauthorized);
      if (found && found->reading == Reading::Whole) client = try_connect(found->announcement);
      if (client) return found->announcement;
      report();
      if (deadline_.expired()) give_up();
      std::this_thread::sleep_for(std::min(pause_, deadline_.remaining()));
      pause_ = std::min(pause_ * 2, kLongestPause);
    }
  }

 private:
  /// Nothing where the server does not answer, or belongs to another rendezvous: an earlier run's, most likely.
  std::unique_ptr<TcpStore> try_connect(const Announcement& announcement) {
    try {
      check_usable(world_, announcement);
      return connect_as_announced(world_, announcement, deadline_.earlier_of(Deadline::after(try_for_)));
    } catch (const Error& error) {
      state_ += std::string(": ") + error.what();
      if (error.code() != ErrorCode::Timeout) refuse_lasting(announcement.nonce, error.code());
      try_for_ = std::min(try_for_ * 2, milliseconds(30'000));
      return nullptr;
    }
  }

  /// An announcement that does not change is no leftover that rank 0 is about to replace.
  void refuse_lasting(const std::string& nonce, ErrorCode code) {
    if (nonce != refused_) {
      refused_ = nonce;
      refused_since_ = Clock::now();
    } else if (Clock::now() - refused_since_ >= kBelieved) {
      throw Error(code, rank_text(world_), " cannot meet rank 0 by the announcement in ", file_.where(), ": ", state_);
    }
  }

  void report() {
    if (reported_ || Clock::now() - start_ < kReportAfter) return;
    reported_ = true;
    log(LogLevel::Warn, rank_text(world_), " (", world_.detected_from, ") waits for rank 0 to publish its address in ",
        file_.where(), ": ", state_);
  }

  [[noreturn]] void give_up() const {
    throw Error(ErrorCode::Timeout, rank_text(world_), " (", world_.detected_from,
                "): rank 0's address was not found in ", file_.where(), " within ",
                static_cast<int>(elapsed_seconds(start_) + 0.5), " s: ", state_,
                ". Did rank 0 start, and is this folder the same on all hosts? If not, set "
                "TUTTI_MEET_DIR to one that is, or MASTER_ADDR and MASTER_PORT");
  }

  using Clock = std::chrono::steady_clock;
  const World& world_;
  const MeetingFile& file_;
  const Deadline deadline_;
  const Clock::time_point start_ = Clock::now();
  std::string state_;
  std::string refused_;
  Clock::time_point refused_since_{};
  milliseconds pause_ = kFirstPause;
  milliseconds try_for_ = kFirstTry;
  bool reported_ = false;
};

/// Where World::meeting_file is a folder, the PMI server has the job's name.
MeetingFile meeting_file_of(const World& world, Deadline deadline) {
  std::string path = world.meeting_file;
  if (world.pmi_descriptor >= 0) path += "/" + meeting_name(pmi_job_name(world.pmi_descriptor, deadline));
  return {std::move(path), world.job_secret};
}

std::shared_ptr<MeetingPlace> meet_by_file(const World& world, Deadline deadline) {
  const MeetingFile file = meeting_file_of(world, deadline);
  Announcement announcement;
  std::shared_ptr<TcpStoreServer> server;
  std::unique_ptr<TcpStore> client;
  if (world.rank == 0) {
    std::tie(server, announcement) = start_server(world);
    file.publish(announcement);
    try {
      client = connect_as_announced(world, announcement, deadline);
    } catch (const Error&) {
      file.withdraw(announcement.nonce);
      throw;
    }
  } else {
    announcement = Seeker(world, file, deadline).find(client);
  }
  auto place = place_of(announcement, "in " + file.where(), std::move(client));
  place->server = std::move(server);
  place->withdraw = [file, nonce = announcement.nonce] { file.withdraw(nonce); };
  return place;
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

std::shared_ptr<MeetingPlace> meet_by_invitation(const World& world, Deadline deadline) {
  Announcement announcement;
  decode_announcement(world.invitation, world.job_secret, announcement);
  std::shared_ptr<TcpStoreServer> server;
  {
    const std::lock_guard lock(invitations().mutex);
    const auto own = invitations().servers.extract(announcement.nonce);
    if (own) server = own.mapped();
  }
  auto place = place_of(announcement, "by invitation", connect_as_announced(world, announcement, deadline));
  place->server = std::move(server);
  return place;
}

}  // namespace

std::string invite(int world_size, bool one_host, const Environment& environment) {
  if (world_size < 1) refuse("an invitation for ", world_size, " ranks; one is least");
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
         encode_announcement(announcement, world.job_secret);
}

bool is_invitation(std::string_view text) { return text.starts_with(kInvitation); }

World invited_world(const WorldOptions& options, const Environment& environment) {
  const auto refuse = [](ErrorCode code, const std::string& why) { throw Error(code, "the ranks' invitation ", why); };
  const std::string text = options.store->substr(std::string_view(kInvitation).size());
  const std::size_t colon = text.find(':');
  World world;
  world.job_secret = text.substr(0, colon);
  if (world.job_secret.empty()) world.job_secret = environment("TUTTI_JOB_SECRET").value_or("");
  world.invitation = colon == std::string::npos ? "" : text.substr(colon + 1);
  Announcement announcement;
  const Reading reading = decode_announcement(world.invitation, world.job_secret, announcement);
  if (reading == Reading::OtherSecret)
    refuse(ErrorCode::Unauthorized, "of " + text_of(announcement) +
                                        " was made with TUTTI_JOB_SECRET, which this rank lacks or has another one of; "
                                        "set the same on all ranks, or on none");
  if (reading != Reading::Whole)
    refuse(ErrorCode::InvalidArgument, "is not what invite() returned: " + printable(text.substr(colon + 1), 100));
  world.rank = options.rank.value_or(-1);
  world.world_size = options.world_size.value_or(-1);
  if (world.rank < 0 || world.rank >= announcement.world_size || world.world_size != announcement.world_size)
    refuse(ErrorCode::InvalidArgument,
           joined("is for ", announcement.world_size, " ranks, but this one says it is rank ", world.rank, " of ",
                  world.world_size, " (-1: not set)"));
  const bool one_host = is_loopback_address(announcement.addresses.front());
  world.local_rank = one_host ? world.rank : 0;
  world.local_world_size = one_host ? world.world_size : 1;
  world.job_id = announcement.job;
  world.detected_from = "an invitation";
  return world;
}

std::shared_ptr<MeetingPlace> meet_at_published_server(const World& world, Deadline deadline) {
  return world.invitation.empty() ? meet_by_file(world, deadline) : meet_by_invitation(world, deadline);
}

}  // namespace tutti::comm
