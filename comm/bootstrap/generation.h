// Generations: how the ranks of an elastic job learn their next places without being started again.
//
// An elastic launcher serves one control store for the whole job (TUTTI_CONTROL=HOST:PORT). Each formation of the job,
// a generation, is a record in it: which workers take part, in the order of their ranks, and where the store of this
// generation's groups is. A worker is one process; its id is "<node>.<slot>.<incarnation>" (TUTTI_WORKER), and a
// replacement for a lost one has the next incarnation. A survivor of a failure says so and waits for the next record.
//
//   elastic/generation/<g>      the record: a text, written once, before the next field
//   elastic/newest              the newest generation's number
//   elastic/member/<worker>     "pid 4711": this worker follows generations (a program that is not elastic never comes)
//   elastic/entered/<worker>    the number of the newest generation in which it has been given its place
//   elastic/begun               the job has done something that a later generation continues
//   elastic/left/<g>            a line "<worker> <why>" of each worker that has no more use for group g
//   elastic/failed              a line "<worker> <why>" of each worker with an error that a new process would meet too
//
// The survivors agree on anything else (which has the newest state) by collectives of the next group. Model: rounds of
// torchrun's dynamic rendezvous (https://pytorch.org/docs/stable/elastic/rendezvous.html), which ends the survivors'
// processes between two of them.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

struct Generation {
  int number = 0;
  int first_size = 0;       // ranks of generation 0, which define a job's global batch
  std::string master_addr;  // of this generation's store server, which the launcher owns; "": where the worker has
                            // reached the control store
  std::uint16_t master_port = 0;
  std::string job_id;                // of this generation alone: no process of an earlier one can join
  std::vector<std::string> workers;  // ids in the order of ranks
};

std::string to_text(const Generation& generation);
/// Throws Protocol, quoting it, for a text that to_text has not made.
Generation generation_from_text(const std::string& text);

/// "<node>.<slot>.<incarnation>". from_text throws InvalidArgument.
struct WorkerId {
  int node = 0;
  int slot = 0;
  int incarnation = 0;

  std::string text() const;
  static WorkerId from_text(const std::string& text);
};

/// The place of `worker`: its local rank and local world are its node's. Nothing if it is not among them.
std::optional<World> place_in(const Generation& generation, const std::string& worker, const std::string& job_secret);

// --- The launcher's side. Each call asks the store once or twice, and waits for no worker.

/// Throws InvalidArgument unless `generation` is newer than what is there.
void publish_generation(Store& control, const Generation& generation, Deadline deadline);

/// Whether this worker's program follows generations.
bool is_member(Store& control, const std::string& worker, Deadline deadline);

/// The newest generation in which this worker has asked for its place, and got it; -1: none.
int entered_generation(Store& control, const std::string& worker, Deadline deadline);

struct WorkerReason {
  std::string worker;
  std::string reason;  // one line
};
/// Workers that have left generation `number` so far, in the order in which they did.
std::vector<WorkerReason> left_generation(Store& control, int number, Deadline deadline);

/// Workers that have failed for good so far, in the order in which they did.
std::vector<WorkerReason> failed_for_good(Store& control, Deadline deadline);

// --- The worker's side.

/// One per process. Thread-safety: one thread; another may call newer_exists() while that one is not in next().
/// Ownership: shares the store.
class GenerationMember {
 public:
  /// Registers `worker`. Throws what the store throws.
  GenerationMember(std::shared_ptr<Store> control, std::string worker, std::string job_secret, Deadline deadline);

  /// For a process of an elastic launcher: connects to TUTTI_CONTROL. Null without that variable. Throws
  /// InvalidArgument for variables that are half set or cannot be read, and what TcpStore throws.
  static std::unique_ptr<GenerationMember> from_environment(Deadline deadline,
                                                            const Environment& environment = process_environment());

  /// Blocks until there is a generation newer than the last one given, and returns this worker's place in the newest. A
  /// new worker may come before its first one. Throws Timeout; PeerLost when the launcher is gone; Aborted when the
  /// newest generation does without this worker, which had a place before: it has nothing to do any more then.
  World next(Deadline deadline);

  /// Tells the launcher that the present generation's group has failed or was left, and why.
  void leave(const std::string& reason, Deadline deadline);

  /// Tells the launcher, if it is there, that this process ends by an error that its replacement would meet too.
  void fail_for_good(const std::string& reason, Deadline deadline) noexcept;

  /// True once the launcher has published a generation newer than the present one. One question to the store.
  bool newer_exists(Deadline deadline);

  /// For a generation without a survivor to ask: has the job begun, so that files of it may be continued?
  void set_begun(Deadline deadline);
  bool has_begun(Deadline deadline);

  /// The present generation; -1 before the first next().
  int number() const { return present_.number; }
  /// Ranks of generation 0.
  int first_size() const { return present_.first_size; }
  const std::string& worker() const { return worker_; }

 private:
  std::shared_ptr<Store> control_;
  std::string worker_;
  std::string job_secret_;
  std::string control_host_;  // "" where the store was given
  Generation present_;
  bool had_place_ = false;
};

}  // namespace tutti::comm
