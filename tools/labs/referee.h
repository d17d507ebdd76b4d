// What a run of a submission's function on all ranks of a world is given (Question), what comes of it (RunResult), and
// what sees it happen (RunObserver). session.h runs it.
//
// Values.
#pragma once

#include <tutti/tools/labs/network.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::labs {

/// What went wrong on one rank, or between ranks (-1).
struct Incident {
  std::string diagnosis;
  std::string text;
  int rank = -1;
};

/// One buffer of a call, as a rank is given it.
struct BufferContent {
  std::string name;  // "input", for texts
  Bytes bytes{};
  bool is_const = false;
};

/// What is to be run: call by call, and for each call buffer by buffer, what each rank is given.
struct Question {
  std::string function;
  Case posed{};
  std::vector<std::vector<BufferContent>> buffers{};  // [rank][call * buffers of a call + buffer]
  std::vector<std::vector<double>> late{};            // [rank][call]: seconds it computes before the call; empty: none
};

struct CallTimes {
  double begin = 0, end = 0;
};

struct RunResult {
  std::optional<Incident> incident{};           // what ended the run
  std::vector<Incident> offences{};             // what did not, and is wrong all the same
  std::vector<std::vector<Bytes>> buffers{};    // as Question::buffers, afterwards; empty after an incident
  std::vector<std::vector<CallTimes>> calls{};  // [rank][call]
  std::vector<double> finish{};                 // of each rank
  std::vector<Traffic> traffic{};
  std::size_t longest_message = 0;  // bytes
  std::string output{};             // what the ranks wrote, the first part of it, each line with its rank

  double last_finish() const;
  std::uint64_t messages() const;  // sent by all ranks
  std::uint64_t bytes() const;
  const Incident* first_wrong() const;  // the incident, else the first offence; null
};

/// Sees a traced run as it happens (play). Times are seconds of virtual time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void waited(int rank, int peer, double begin, double end, const std::string& call) = 0;
  virtual void combined(int rank, std::size_t bytes, double begin, double end) = 0;
  virtual void holds(int rank, std::size_t buffer, const Bytes& content, double now) = 0;
  virtual void sent(Network::Operation send, const Bytes& message) = 0;
  virtual void ended(const Network& network) = 0;
};

}  // namespace tutti::labs
