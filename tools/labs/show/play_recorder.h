// PlayRecorder: fills a Play from a traced run of a submission, as the referee sees it.
//
// Thread-safety: none. Bounded, whatever the submission does: play.h's limits.
#pragma once

#include <tutti/tools/labs/play.h>
#include <tutti/tools/labs/referee.h>

#include <map>
#include <string>

namespace tutti::labs {

class PlayRecorder : public RunObserver {
 public:
  /// `question` is one call with words as elements (pose_play), and must outlive this object.
  explicit PlayRecorder(const Question& question);

  void waited(int rank, int peer, double begin, double end, const std::string& call) override;
  void combined(int rank, std::size_t bytes, double begin, double end) override;
  void holds(int rank, std::size_t buffer, const Bytes& content, double now) override;
  void sent(Network::Operation send, const Bytes& message) override;
  void ended(const Network& network) override;

  /// The run, once Session::run has returned `result`; then this object is empty. A result that is merely not what it
  /// should be is Right here: the page compares.
  Play take(const RunResult& result);

 private:
  void add(PlayEvent event);

  Play play_;
  std::size_t buffers_per_call_;
  std::map<Network::Operation, std::vector<std::uint64_t>> messages_;
  std::vector<bool> is_stuck_;  // ranks that waited when the run ended
};

}  // namespace tutti::labs
