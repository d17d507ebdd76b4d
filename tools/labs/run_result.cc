#include <tutti/tools/labs/referee.h>

#include <algorithm>

namespace tutti::labs {

double RunResult::last_finish() const { return finish.empty() ? 0 : *std::max_element(finish.begin(), finish.end()); }

std::uint64_t RunResult::messages() const {
  std::uint64_t sum = 0;
  for (const Traffic& rank : traffic) sum += rank.messages_sent;
  return sum;
}

std::uint64_t RunResult::bytes() const {
  std::uint64_t sum = 0;
  for (const Traffic& rank : traffic) sum += rank.bytes_sent;
  return sum;
}

const Incident* RunResult::first_wrong() const {
  if (incident) return &*incident;
  return offences.empty() ? nullptr : &offences.front();
}

}  // namespace tutti::labs
