// Long messages between two processes of a host, read by the receiver where the sender has them.
//
// Their announcement says where that is. The receiver chooses (transport/shm/single_copy.h): it reads the message and
// answers that it has, or has it sent, also where it turns out that it cannot read. A sender whose call fails withdraws
// its memory before its caller learns of that; what is read later is no message.
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/point_to_point/request.h>
#include <tutti/comm/transport/shm/single_copy.h>

#include <algorithm>

namespace tutti::comm {
namespace {

constexpr std::size_t kReadAtOnce = 1024 * 1024;  // before other messages get their turn

}  // namespace

/// An announced message has its receive.
void PointToPoint::accept(int peer, const FrameHeader& announced, const RequestPtr& receive) {
  SingleCopyChoice* const choice = announced.memory != 0 ? transport_.messages(peer).single_copy() : nullptr;
  if (choice) receive->met = FastClock::now();
  if (!choice || !choice->choose(receive->data.nbytes())) return clear_to_send(peer, announced, receive);
  reads_.push_back({peer, announced, receive});
}

bool PointToPoint::progress_reads() {
  if (reads_.empty()) return false;
  std::erase_if(reads_, [&](Read& read) { return read_on(read); });
  return true;
}

/// Reads a part of it. True if that was the last, or if it is to be sent.
bool PointToPoint::read_on(Read& read) {
  Link& link = transport_.messages(read.peer);
  const Buffer& data = read.receive->data;
  const std::size_t length = std::min(kReadAtOnce, data.nbytes() - read.done);
  try {
    if (!link.read_memory(read.announced.memory + read.done,
                          {static_cast<std::byte*>(data.data) + read.done, length})) {
      link.single_copy()->refuse();
      clear_to_send(read.peer, read.announced, read.receive);
      return true;
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::PeerLost) monitor_.explain_loss(error, std::span(&read.peer, 1));
    throw;
  }
  read.done += length;
  if (read.done < data.nbytes()) return false;
  note_time(read.peer, *read.receive, /*single=*/true);
  post(transport_.answers(read.peer), {FrameKind::Taken, read.announced.fingerprint, 0, read.announced.id}, nullptr,
       nullptr);
  finish(*read.receive, read.peer);
  return true;
}

void PointToPoint::note_time(int peer, const Request& receive, bool single) {
  SingleCopyChoice* const choice = transport_.messages(peer).single_copy();
  if (choice) choice->took(receive.data.nbytes(), single, FastClock::now() - receive.met);
}

/// Nobody is to read any more what announced sends have in this rank's memory.
void PointToPoint::withdraw_memory() {
  for (const auto& [peer_and_id, request] : announced_) transport_.messages(peer_and_id.first).withdraw_memory();
}

}  // namespace tutti::comm
