// RankSpread: ranks that outnumber the processors of their host, spread evenly over them.
//
// Where some processor has two ranks more than another the last ones move: of ranks that have all just run the system
// moves none for seconds, and in a collective all wait for the fullest processor, which has to switch between more of
// them: five beside three take a quarter longer than four beside four.
//
// Each rank decides for itself what it does, from what all know of each other. Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace tutti::comm {

class RankSpread {
 public:
  /// Of the calling thread: the number of the processor that it runs on, those of all that it may run on, and going
  /// there.
  struct Place {
    std::function<int()> here;
    std::function<std::vector<int>()> allowed;
    std::function<void(int)> move_to;
  };
  static Place system_place();

  explicit RankSpread(int self, Place place = system_place());

  int here() const { return place_.here(); }

  /// processors[i] is where rank i has been lately, negative if nobody knows: then nothing happens. Moves the calling
  /// thread if it is of those who should. Where they do not stay, or may not go, they try again after 1, 2, 4, ... such
  /// calls in a row.
  void even_out(std::span<const int> processors);

 private:
  const int self_;
  const Place place_;
  unsigned uneven_ = 0;  // calls in a row
};

}  // namespace tutti::comm
