// PacketSharing: short frames of a rank that runs ahead of the others leave together.
//
// The root of short broadcasts, or a leaf of short reduces, sends one frame after another and awaits nothing. A packet
// for each costs it and its receivers several times what the frame itself does. So a rank that has only sent for a
// while has the kernel hold a short frame back until those before it are acknowledged (Nagle's algorithm, RFC 896).
// Receivers acknowledge late by default (RFC 1122, 4.2.3.2: by 40 ms on Linux), hoping for something to send along;
// therefore the frames before say that their receiver is to acknowledge what it has read (FrameHeader::acknowledge): on
// another host at once, on the same one when it polls for more and finds none, so that more can gather. So a frame is
// held back for one round trip at most, from a receiver that has read what came before it; and a rank that awaits
// answers sends as ever, each frame in a packet of its own.
//
// Without it broadcasts, reduces and gathers of 4 B and 1 KiB over TCP take 3.5 to 5 times as long in a row, and miss
// the bar of 0.9 beside Open MPI's TCP: 0.64 (broadcast, 2 ranks), 0.45 to 0.85 (reduce, 4 ranks), 0.75 (gather, 4
// ranks).
//
// Plain values, no I/O. Thread-safety: one thread at a time. Internal to tcp/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::comm {

/// Whether this rank sends much more often than it receives, over all links of a lane.
class RunsAhead {
 public:
  void note_sent() { lead_ = std::min(lead_ + 1, kMost); }
  void note_received() { lead_ = std::max(lead_ - kReceipt, 0); }

  explicit operator bool() const { return lead_ >= kEnough; }

 private:
  static constexpr int kEnough = 16;   // frames
  static constexpr int kReceipt = 16;  // frames for what one call received: a rank that forwards many frames
                                       // runs ahead, too
  static constexpr int kMost = 64;

  int lead_ = 0;
};

/// One link's frames.
class PacketSharing {
 public:
  static constexpr int kAnnouncements = 16;     // frames; their receiver then acknowledges what it reads
  static constexpr std::size_t kInAPacket = 4;  // of the longest that are short

  /// A connection with packets of so many bytes, as far as known when it opens; of 0: nothing is short.
  explicit PacketSharing(std::size_t packet_bytes = 0) : most_bytes_(packet_bytes / kInAPacket) {}

  /// For each frame to be sent, in order: whether it asks its receiver to acknowledge.
  bool announces(const RunsAhead& runs_ahead, std::uint64_t frame_bytes) {
    const bool is_one = bool(runs_ahead) && frame_bytes <= most_bytes_;
    announced_ = is_one ? std::min(announced_ + 1, kAnnouncements + 1) : 0;
    return is_one;
  }

  /// Whether the last of these may be held back.
  bool holds() const { return announced_ > kAnnouncements; }

 private:
  std::size_t most_bytes_;
  int announced_ = 0;  // in a row
};

}  // namespace tutti::comm
