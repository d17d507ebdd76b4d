// Tuning: what `tutti tune` has measured on a machine, and how a group comes to use it.
//
// A tuning file (algorithms.md says what is in it) holds a network model and the times of algorithms at some sizes, for
// one transport, world size and number of hosts. TUTTI_TUNING names it. Rank 0's file is what counts: it publishes the
// text in the group's store, and all ranks choose by that, so that no two ranks choose differently.
//
// Thread-safety: values and pure functions; publish_tuning and published_tuning use the store.
#pragma once

#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/store/store.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

inline constexpr int kTuningVersion = 3;

/// What a tuning was measured on, and what a group runs on; they must be equal.
struct TuningPlace {
  std::string transport;
  int world_size = 1;
  int hosts = 1;

  bool operator==(const TuningPlace&) const = default;
};

struct Tuning {
  /// One algorithm's time for `bytes` = count * element size (schedule.h says what count means for each operation).
  struct Row {
    OpKind op = OpKind::AllReduce;
    std::string algorithm;
    std::size_t bytes = 0;
    double seconds = 0;
  };

  std::string host;
  std::string date;  // "2026-11-21T10:00:00Z"
  TuningPlace place;
  NetworkModel model;
  std::vector<Row> rows;  // rising bytes within each (op, algorithm)
  /// Nothing was measured, and model and rows say nothing; but all ranks share one host, and outnumber its so many
  /// CPUs. 0: there was a file.
  int processors = 0;

  /// From the measured times, on straight lines between the sizes, in proportion to the bytes beyond the last; nothing
  /// if the algorithm was not measured for this operation.
  std::optional<double> seconds(OpKind op, std::string_view algorithm, double bytes) const;
};

/// The text of a tuning file, ending with a newline.
std::string tuning_text(const Tuning& tuning);

/// Throws InvalidArgument saying what is wrong: no JSON, a missing key, another version, a number that is none.
Tuning parse_tuning(const std::string& text);

/// The name of the file in TUTTI_TUNING; empty if there is none.
std::string tuning_path();

/// On rank 0, once: reads the file and publishes it under `<group>/tuning`, or that there is none. A file that cannot
/// be read, is broken or was measured in another place is named in a warning and not used. Without one, the number of
/// CPUs is published if it is not 0 (Tuning). Does not wait for other ranks.
void publish_tuning(Store& store, const std::string& group, const TuningPlace& here, Deadline deadline,
                    int processors = 0);

/// What rank 0 has published, or nothing if it uses none. Blocks until rank 0 has; throws Timeout naming it.
std::shared_ptr<const Tuning> published_tuning(Store& store, const std::string& group, Deadline deadline);

}  // namespace tutti::comm
