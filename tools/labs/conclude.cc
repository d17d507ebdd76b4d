// What the cases of a stage say together: which of them fail tells what is wrong.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/grade.h>

#include <algorithm>
#include <bit>

namespace tutti::labs {
namespace {

using Failed = std::vector<const CaseResult*>;

bool is_wrong(const CaseResult& result) { return result.wrong.has_value(); }

template <typename Predicate>
bool all_of(const Failed& failed, Predicate predicate) {
  return std::all_of(failed.begin(), failed.end(), [&](const CaseResult* r) { return predicate(*r->posed); });
}
template <typename Predicate>
bool some_right(const std::vector<CaseResult>& results, Predicate predicate) {
  return std::any_of(results.begin(), results.end(),
                     [&](const CaseResult& r) { return r.was_run && !is_wrong(r) && predicate(*r.posed); });
}

std::string listed(const std::set<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    const bool is_last = number == *numbers.rbegin();
    text += (text.empty() ? "" : is_last ? " and " : ", ") + std::to_string(number);
  }
  return text;
}

struct Pattern {
  std::string diagnosis;  // empty: none
  std::string text;
};

bool is_power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

Pattern pattern_of_worlds(const std::vector<CaseResult>& results) {
  std::set<int> right, wrong;
  for (const CaseResult& result : results) {
    if (result.was_run) (is_wrong(result) ? wrong : right).insert(result.posed->world_size);
  }
  const std::string fails = "fails for " + listed(wrong) + " ranks";
  if (right.empty()) return {"", ""};
  if (wrong == std::set{1}) return {diagnosis::kWorldOfOne, "fails where there is one rank only"};
  right.erase(1);
  if (right.empty()) return {"", ""};
  const std::string text = "works for " + listed(right) + " ranks, " + fails;
  const auto all = [](const std::set<int>& numbers, auto predicate) {
    return std::all_of(numbers.begin(), numbers.end(), predicate);
  };
  if (right.size() > 1 && all(right, is_power_of_two) && std::none_of(wrong.begin(), wrong.end(), is_power_of_two)) {
    return {diagnosis::kOnlyPowersOfTwo, "works for powers of two only: " + text};
  }
  const auto even = [](int number) { return number % 2 == 0; };
  if (right.size() > 1 && all(right, even) && std::none_of(wrong.begin(), wrong.end(), even)) {
    return {diagnosis::kOnlyEvenWorlds, "works for even numbers of ranks only: " + text};
  }
  if (right.size() == 1 && *right.begin() > 2) {
    return {diagnosis::kHardCodedWorldSize, "works for " + std::to_string(*right.begin()) +
                                                " ranks only: is the number of ranks written into it? It " + fails};
  }
  // With two ranks many mistakes cannot be seen: that says nothing about sizes.
  if (*right.rbegin() > 2 && *right.rbegin() < *wrong.upper_bound(1)) {
    return {diagnosis::kOnlySmallWorlds,
            "works for up to " + std::to_string(*right.rbegin()) + " ranks only: it " + fails};
  }
  return {"", text};
}

Pattern pattern_of_counts(const std::vector<CaseResult>& results, const Failed& failed) {
  if (!failed.front()->posed->counts.empty()) return {"", ""};
  const auto parts = [](const Case& c) { return static_cast<std::size_t>(c.world_size); };
  const auto none = [](const Case& c) { return c.count == 0; };
  const auto few = [&](const Case& c) { return c.count < parts(c); };
  const auto uneven = [&](const Case& c) { return c.count % parts(c) != 0 || c.count == 0; };
  if (all_of(failed, none)) return {diagnosis::kNoElements, "fails where there are no elements"};
  if (all_of(failed, few)) {
    return {diagnosis::kFewElements, "fails where there are fewer elements than ranks"};
  }
  const bool divided_work = some_right(results, [&](const Case& c) { return !uneven(c); });
  if (divided_work && all_of(failed, uneven)) {
    return {diagnosis::kLastChunk, "fails where the elements cannot be divided evenly among the ranks"};
  }
  return {"", ""};
}

Pattern pattern_of_types(const std::vector<CaseResult>& results, const Failed& failed) {
  const auto sum = [](const Case& c) { return c.op == Combination::Sum; };
  if (some_right(results, sum) && all_of(failed, [&](const Case& c) { return !sum(c); })) {
    return {diagnosis::kWrongOperator, "works for sums only"};
  }
  if (failed.front()->wrong->diagnosis == diagnosis::kRanksDiffer) return {"", ""};
  if (all_of(failed, sum)) return {diagnosis::kWrongType, "fails for " + name_of(failed.front()->posed->type)};
  return {"", ""};
}

Pattern pattern_of(const Stage& stage, const std::vector<CaseResult>& results, const Failed& failed) {
  const std::string& first = failed.front()->wrong->diagnosis;
  switch (stage.axis) {
    case Axis::Worlds:
      return pattern_of_worlds(results);
    case Axis::Roots:
      if (some_right(results, [](const Case& c) { return c.root == 0; }) &&
          all_of(failed, [](const Case& c) { return c.root != 0; })) {
        return {diagnosis::kWrongRoot, "works for root 0, not for all others"};
      }
      return {"", ""};
    case Axis::Counts:
      return pattern_of_counts(results, failed);
    case Axis::Types:
      return pattern_of_types(results, failed);
    case Axis::Order:
      return {diagnosis::kMessageOrder, "works only if messages arrive in a certain order"};
    case Axis::Long:
      if (first == diagnosis::kDeadlock) {
        return {diagnosis::kLongMessages,
                "hangs where a send waits until its message is received, as it does with messages of more than 64 KiB"};
      }
      return {"", ""};
    case Axis::Repeats:
      return {diagnosis::kSecondCall, "works once, not when it is called again"};
    case Axis::Cost:
      return {"", ""};
  }
  return {"", ""};
}

bool is_one_of(const std::string& found, std::initializer_list<const char*> diagnoses) {
  return std::find(diagnoses.begin(), diagnoses.end(), found) != diagnoses.end();
}

// What is a finding by itself, in whichever stage it is seen.
bool speaks_for_itself(const std::string& found) {
  using namespace diagnosis;
  return is_one_of(found, {kReusedBeforeWait, kNeverWaited, kReadBeforeWait, kUninitialised, kInputChanged}) ||
         ends_grading(found);
}

}  // namespace

bool ends_grading(const std::string& found) {
  using namespace diagnosis;
  return is_one_of(found, {kEndlessLoop, kEarlyExit, kForbidden, kStartsProcesses, kOpensFiles, kNetworkAccess, kSleeps,
                           kSignalsOthers, kTooMuchOutput, kOutOfMemory, kTooManyRequests, kBreaksProtocol});
}

std::optional<Finding> conclude(const Stage& stage, const std::string& function,
                                const std::vector<CaseResult>& results) {
  Failed failed;
  for (const CaseResult& result : results) {
    if (result.was_run && is_wrong(result)) failed.push_back(&result);
  }
  if (failed.empty()) return std::nullopt;
  const CaseResult* shown = failed.front();
  for (const CaseResult* result : failed) {
    if (ends_grading(result->wrong->diagnosis)) shown = result;
    // That only one rank has the result can be told from three ranks on.
    if (result->wrong->diagnosis == diagnosis::kOnlyAtRoot && shown == failed.front()) shown = result;
  }
  Finding finding;
  finding.evidence = shown->wrong->diagnosis;
  finding.failed_case = describe(function, *shown->posed);
  const Pattern pattern = speaks_for_itself(finding.evidence) ? Pattern{} : pattern_of(stage, results, failed);
  finding.diagnosis = pattern.diagnosis.empty() ? finding.evidence : pattern.diagnosis;
  finding.text = (pattern.text.empty() ? "" : function + "() " + pattern.text + ". ") + shown->wrong->text;
  return finding;
}

}  // namespace tutti::labs
