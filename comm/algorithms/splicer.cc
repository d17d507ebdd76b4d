#include <tutti/comm/algorithms/splicer.h>

namespace tutti::comm::algorithms {
namespace {

Slice mapped(const Slice& slice, const Mapping& mapping) {
  const Mapping::Place& place = slice.buffer == BufferId::Input    ? mapping.input
                                : slice.buffer == BufferId::Output ? mapping.output
                                                                   : mapping.scratch;
  return {place.buffer, place.offset + slice.offset, slice.count};
}

bool same(const Slice& a, const Slice& b) { return a.buffer == b.buffer && a.offset == b.offset && a.count == b.count; }

}  // namespace

void Splicer::wait_for_conflicts(const Access& access, Builder::After& after) const {
  const auto buffer = static_cast<std::size_t>(access.slice.buffer);
  const std::size_t begin = access.slice.offset;
  const std::size_t end = begin + access.slice.count;
  const auto& known = accesses_[buffer];
  for (auto it = known.lower_bound(begin - std::min(begin, longest_[buffer])); it != known.end(); ++it) {
    if (it->first >= end) return;
    const Access& earlier = it->second;
    if (earlier.slice.offset + earlier.slice.count <= begin || !(earlier.writes || access.writes)) continue;
    if (std::find(after.begin(), after.end(), earlier.step) == after.end()) after.push_back(earlier.step);
  }
}

void Splicer::remember(const Access& access) {
  const auto buffer = static_cast<std::size_t>(access.slice.buffer);
  accesses_[buffer].emplace(access.slice.offset, access);
  longest_[buffer] = std::max(longest_[buffer], access.slice.count);
  if (access.slice.buffer == BufferId::Scratch) {
    scratch_count_ = std::max(scratch_count_, access.slice.offset + access.slice.count);
  }
}

void Splicer::add(const Schedule& part, const std::vector<int>& ranks, const Mapping& mapping) {
  std::vector<Builder::After> stands_for(part.steps.size());  // of the part's steps: those of the whole
  std::vector<Access> made;
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    Step step = part.steps[i];
    Builder::After after;
    for (const auto earlier : step.after) {
      after.insert(after.end(), stands_for[earlier].begin(), stands_for[earlier].end());
    }
    const bool is_send = step.kind == Step::Kind::Send;
    const bool has_source = is_send || step.kind == Step::Kind::Copy || step.kind == Step::Kind::Reduce;
    if (has_source) step.source = mapped(step.source, mapping);
    if (!is_send) step.target = mapped(step.target, mapping);
    if (step.kind == Step::Kind::Copy && same(step.source, step.target)) {
      stands_for[i] = std::move(after);
      continue;
    }
    if (has_source) wait_for_conflicts({step.source, false}, after);
    if (!is_send) wait_for_conflicts({step.target, true}, after);
    if (step.peer >= 0) step.peer = ranks[static_cast<std::size_t>(step.peer)];
    step.after = std::move(after);
    const Slice source = step.source;
    const Slice target = step.target;
    const Builder::Index index = builder_.add(std::move(step));
    stands_for[i] = {index};
    if (has_source) made.push_back({source, false, index});
    if (!is_send) made.push_back({target, true, index});
  }
  for (const Access& access : made) remember(access);
}

}  // namespace tutti::comm::algorithms
