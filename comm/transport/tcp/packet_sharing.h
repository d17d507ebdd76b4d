// PacketSharing: short frames of a rank that runs ahead of the others leave together.
//
// The root of short broadcasts, or a leaf of short reduces, sends one frame after another and awaits nothing. A packet
// for each costs it and its receivers several times what the frame itself does. So who has only sent for a while has
// the kernel hold a short frame back until those before it are acknowledged (Nagle's algorithm, RFC 896). Receivers
// acknowledge late by default (RFC 1122, 4.2.3.2: by 40 ms on Linux), hoping for something to send along; therefore the
// frames before say that their receiver is to acknowledge at once what it has read (FrameHeader::acknowledge). A frame
// is so held back for one way there and back at most, from a receiver that has read what came before it; and who awaits
// answers sends as ever, each frame in a packet of its own.
//
// Plain values, no I/O. Thread-safety: one thread at a time. Internal to tcp/.
#pragma once

#include <tutti/comm/transport/frame.h>

#include <algorithm>
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
  static constexpr int kReceipt = 16;  // frames for what was received by one call: who passes on what comes in plenty
                                       // runs ahead, too
  static constexpr int kMost = 64;

  int lead_ = 0;
};

/// One link's frames.
class PacketSharing {
 public:
  static constexpr std::uint64_t kShortPayloadBytes = 2048;
  static constexpr int kAnnouncements = 16;  // frames, whose receiver then acknowledges at once

  /// For each frame to be sent, in their order: whether its receiver is to acknowledge at once.
  bool announces(const RunsAhead& runs_ahead, std::uint64_t payload_bytes) {
    const bool is_one = bool(runs_ahead) && payload_bytes <= kShortPayloadBytes && !kBareFrames;
    announced_ = is_one ? std::min(announced_ + 1, kAnnouncements + 1) : 0;
    return is_one;
  }

  /// Whether the last of these may be held back.
  bool holds() const { return announced_ > kAnnouncements; }

 private:
  int announced_ = 0;  // in a row
};

}  // namespace tutti::comm
