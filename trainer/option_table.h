// The options of a training run, a row each. The command line and its help, the check of values, what ranks compare,
// what a continuation shares with its checkpoint, and what a run's folder tells of them are made from the rows. What
// options ask of each other is checked in options.cc, update_rule.cc and parallel_options.cc.
#pragma once

#include <tutti/comm/bootstrap/settings.h>
#include <tutti/trainer/options.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tutti::trainer {

using OptionMember =
    std::variant<std::string TrainOptions::*, std::filesystem::path TrainOptions::*, bool TrainOptions::*,
                 int TrainOptions::*, std::int64_t TrainOptions::*, std::uint64_t TrainOptions::*,
                 double TrainOptions::*, std::optional<double> TrainOptions::*, std::optional<bool> TrainOptions::*,
                 std::chrono::milliseconds TrainOptions::*, std::size_t BucketLimits::*>;

/// What a value must be: in a range, if it is a number, or one of some words.
struct OptionCheck {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  const char* must_be = "";     // "at least 1"
  std::string_view words = {};  // "none step cosine"; empty: any
};

namespace option_traits {
inline constexpr unsigned kRecord = 1;     // told in the run's folder
inline constexpr unsigned kResume = 2;     // told there, and a continuation must agree with the checkpoint
inline constexpr unsigned kIfGiven = 4;    // neither of both while it is what it is by default
inline constexpr unsigned kOwn = 8;        // each rank may have its own
inline constexpr unsigned kPictures = 16;  // of tasks with pictures in folders
}  // namespace option_traits

struct TrainOption {
  std::string_view name;  // "batch-size"
  OptionMember member;
  unsigned traits = 0;
  /// Null: not on the command line. "": the task has one. "[...]" at its end is the default where no value says it.
  const char* help = nullptr;
  OptionCheck check{};
  /// What is told in place of the value; "": nothing, since it is not used.
  std::string (*text)(const TrainOptions&) = nullptr;

  bool is(unsigned trait) const { return (traits & trait) != 0; }
};

std::span<const TrainOption> option_table();

/// Calls `use` with the option's own member of `options`, which may be const.
template <typename Options, typename Use>
decltype(auto) with_value(const TrainOption& option, Options& options, Use&& use) {
  const auto visitor = [&](auto member) -> decltype(auto) {
    if constexpr (std::is_same_v<decltype(member), std::size_t BucketLimits::*>)
      return use(options.buckets.*member);
    else
      return use(options.*member);
  };
  return std::visit(visitor, option.member);
}

/// Throws UsageError naming the option, its value and what fits.
void check_values(const TrainOptions& options);

/// What all ranks of a run must be told alike: every option but those that are each rank's own, as where its data and
/// cache lie, which device of its kind, its threads, how long it waits, what is to go wrong in it.
comm::Settings options_of_all_ranks(const TrainOptions& options);

/// The number as it is told, which is read back as the same.
std::string number_text(double value);

}  // namespace tutti::trainer
