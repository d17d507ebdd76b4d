#include <tutti/tools/labs/real/group_ranks.h>

#include <stdexcept>
#include <utility>

namespace tutti::labs {
namespace {

// Messages are bytes to the group: it compares lengths, and the type is the solution's own affair.
comm::ConstBuffer bytes_of(const Ranks::ConstMemory& memory) { return {memory.data, memory.bytes, comm::DType::UInt8}; }
comm::Buffer bytes_of(const Ranks::Memory& memory) { return {memory.data, memory.bytes, comm::DType::UInt8}; }

int source_of(int source) { return source == kAnySource ? comm::kAnySource : source; }

}  // namespace

void GroupRanks::do_send(ConstMemory data, int destination, int tag) { group_.send(bytes_of(data), destination, tag); }

int GroupRanks::do_recv(Memory data, int source, int tag) {
  return group_.recv(bytes_of(data), source_of(source), tag);
}

std::uint64_t GroupRanks::keep(comm::Work work, int source) {
  pending_.emplace(++last_, Pending{std::move(work), source});
  return last_;
}

std::uint64_t GroupRanks::do_isend(ConstMemory data, int destination, int tag) {
  return keep(group_.isend(bytes_of(data), destination, tag), kAnySource);
}

std::uint64_t GroupRanks::do_irecv(Memory data, int source, int tag) {
  return keep(group_.irecv(bytes_of(data), source_of(source), tag), source);
}

int GroupRanks::do_sendrecv(ConstMemory outgoing, int destination, Memory incoming, int source, int send_tag,
                            int recv_tag) {
  return group_.sendrecv(bytes_of(outgoing), destination, bytes_of(incoming), source_of(source), send_tag, recv_tag);
}

int GroupRanks::do_wait(std::uint64_t request) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) throw std::logic_error("a request was waited for that is not under way");
  Pending pending = found->second;
  pending_.erase(found);
  pending.work.wait();
  return pending.source == kAnySource ? pending.work.source_rank() : pending.source;
}

bool GroupRanks::is_complete(std::uint64_t request) {
  const auto found = pending_.find(request);
  return found == pending_.end() || found->second.work.is_completed();
}

// The message goes on, and its buffer must live: the grader says so where it matters.
void GroupRanks::do_forget(std::uint64_t) noexcept {}

double GroupRanks::do_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tutti::labs
