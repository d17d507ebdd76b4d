// Network: the virtual network of the referee. It matches sends with receives, decides when each of them ends, and
// knows when nobody can go on any more. It knows nothing of processes: ranks are numbers with a clock.
//
// Time is simulated from event to event. The ranks' processes run between two calls only, and step() is called when all
// of them are blocked, so that it always knows everything that could happen next and takes what happens first. The same
// calls give the same times, bit for bit, however busy the machine is.
//
// Rules (lab_case.h has the parameters): messages from one rank to another with equal tags are received in the order
// they were sent; receives of one rank that fit the same message take it in the order they were posted. A message up to
// eager_bytes leaves by itself, and its sender goes on when it is on the other side; a longer one waits for its
// receive. With jitter, arrivals are late by a random time each, and what arrives first is received first, where a
// receive takes any source.
//
// Thread-safety: one thread. What it is given comes from submissions; wrong arguments become an Objection.
#pragma once

#include <tutti/tools/labs/lab_case.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::labs {

using Bytes = std::vector<unsigned char>;

/// Why a call cannot be carried out: a diagnosis (diagnosis.h) and a sentence.
struct Objection {
  std::string diagnosis;
  std::string text;
};

/// A message that has passed, or is on its way.
struct Passage {
  int from = 0, to = 0, tag = 0;
  std::size_t bytes = 0;
  double begin = 0, end = 0;
  std::size_t send = 0;     // its operation
  std::size_t receive = 0;  // kNoOperation until it is received
};

struct Traffic {
  std::uint64_t messages_sent = 0, messages_received = 0, bytes_sent = 0, bytes_received = 0;
};

/// "irecv of 12 elements from rank 1, tag 3".
std::string call_text(bool is_send, bool is_begun, std::size_t bytes, std::size_t element_bytes, int peer, int tag);

class Network {
 public:
  using Operation = std::size_t;
  static constexpr Operation kNoOperation = static_cast<Operation>(-1);

  Network(int world_size, const NetworkSettings& settings);

  // --- What the ranks do. Each returns the operation, or an objection. ---
  struct Posted {
    Operation operation = kNoOperation;
    std::optional<Objection> objection{};
  };
  Posted send(int rank, int destination, int tag, Bytes message, std::size_t element_bytes);
  Posted receive(int rank, int source, int tag, std::size_t bytes, std::size_t element_bytes);

  void compute(int rank, double seconds) { clock_[at(rank)] += seconds; }
  void combine(int rank, std::uint64_t bytes) { compute(rank, static_cast<double>(bytes) * settings_.gamma); }
  void wait(int rank, Operation operation);  // it is blocked until the operation ends
  void poll(int rank, Operation operation);  // it asks whether it has ended
  void finish(int rank);                     // it will do no more

  // --- What happens next. ---
  struct Event {
    enum class Kind { Ended, Answer, Objection, Stuck, AllFinished } kind = Kind::Stuck;
    int rank = 0;
    Operation operation = kNoOperation;
    bool is_complete = false;  // Answer
    Objection objection{};
  };
  /// When every rank waits, polls or has finished: what happens first.
  Event step();

  double clock(int rank) const { return clock_[at(rank)]; }
  int world_size() const { return static_cast<int>(clock_.size()); }
  int source_of(Operation receive) const;  // of one that has ended
  Bytes take_message(Operation receive);   // of one that has ended; once
  const std::vector<Traffic>& traffic() const { return traffic_; }
  const std::vector<Passage>& passages() const { return passages_; }
  std::size_t posted() const { return operations_.size(); }
  std::size_t bytes_in_flight() const { return bytes_in_flight_; }

  /// "recv of 96 bytes from rank 1 (tag 0)".
  std::string text_of(Operation operation) const;

  /// Whom a rank waits for; -1: anybody. Empty if it does not wait.
  struct Wait {
    int rank = 0;
    int peer = -1;
    Operation operation = kNoOperation;
    bool polls = false;
  };
  std::vector<Wait> waits() const;  // those of a cycle first, in its order, if there is one
  /// "0 waits for 1, 1 waits for 0: ..." with each one's call.
  Objection explain_stuck() const;

  /// A message that was sent and that nobody received, if there is one.
  std::optional<Objection> left_over() const;

 private:
  struct Op {
    int rank = 0;
    std::size_t order = 0;  // among this rank's operations
    bool is_send = false;
    int peer = 0;
    int tag = 0;
    std::size_t bytes = 0;
    std::size_t element_bytes = 1;
    double posted = 0;
    double late = 0;            // jitter of the message
    bool is_scheduled = false;  // eager send: on its way; `arrives` is known
    double arrives = 0;
    bool is_matched = false;
    bool has_end = false;
    double end = 0;
    Operation other = kNoOperation;
    std::size_t passage = 0;
    Bytes message{};
  };
  enum class State { Running, Waiting, Polling, Finished };
  struct Candidate {
    enum class Kind { None, Schedule, Match, Resume, Poll } kind = Kind::None;
    double time = 0;
    Operation first = kNoOperation;   // the send, or what is waited for
    Operation second = kNoOperation;  // the receive
    int rank = 0;
    std::size_t order = 0;  // of `first` among its rank's operations
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  Posted no_such_rank(int rank, const char* does, int peer) const;
  Operation add(Op op);
  void consider(Candidate& best, Candidate other) const;
  double lateness(int from, int to, std::size_t order) const;
  Candidate next() const;
  void consider_match(Candidate& best, Operation receive) const;
  void schedule(Op& send);
  std::optional<Objection> match(Operation send, Operation receive);
  bool is_eager(const Op& send) const { return send.bytes <= settings_.eager_bytes || send.peer == send.rank; }
  std::vector<int> cycle() const;
  std::optional<Operation> unfitting_send(Operation receive) const;

  NetworkSettings settings_;
  std::vector<double> clock_, send_port_, receive_port_;
  std::vector<State> state_;
  std::vector<Operation> awaited_;
  std::vector<Op> operations_;
  std::vector<std::size_t> orders_;                    // of each rank: its number of operations
  std::vector<std::vector<Operation>> open_sends_;     // by receiver: not matched yet, in their order
  std::vector<std::vector<Operation>> open_receives_;  // by rank: not matched yet, in their order
  std::vector<Operation> unscheduled_;                 // eager sends that have not left yet
  std::vector<Traffic> traffic_;
  std::vector<Passage> passages_;
  std::size_t bytes_in_flight_ = 0;
  int idle_polls_ = 0;  // answers "no" in a row while nothing else could happen
};

}  // namespace tutti::labs
