// Which of a rank's two streams an option speaks of, as torchrun's --redirects and --tee say it.
//
// A value: 0 none, 1 standard output, 2 standard error, 3 both. Either one value for all ranks of this host ("3"), or a
// map from local rank to value ("0:1,1:2"); ranks that the map leaves out have 0. Values; pure functions.
#pragma once

#include <map>
#include <string>

namespace tutti::tools {

enum class Stream { Out = 0, Err = 1 };

class StreamMap {
 public:
  StreamMap() = default;  // 0 for all
  explicit StreamMap(int all) : all_(all) {}

  /// Throws std::invalid_argument with one sentence that begins with `option`.
  static StreamMap parse(const std::string& text, const std::string& option);

  bool has(int local_rank, Stream stream) const;
  /// Some rank has some stream.
  bool any() const;

 private:
  int all_ = 0;
  std::map<int, int> by_rank_;
};

}  // namespace tutti::tools
