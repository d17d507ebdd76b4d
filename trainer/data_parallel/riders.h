// Riders: a few small whole numbers that travel with the gradients, so that the ranks can agree on something at every
// step without a collective of its own. They lie at the end of the last bucket where its exchange adds element by
// element, and are reduced by themselves otherwise.
//
// Numbers: one per Request (how many ranks ask), and, on request, one per parameter (how many ranks reached it).
// Thread-safety: none. Ownership: shares the memory it is given.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/tensor.h>

#include <array>
#include <cstddef>

namespace tutti::trainer {

/// NextGeneration: leave this group after the step (elastic/elastic_training.h).
enum class Request { Checkpoint, Stop, NextGeneration };
inline constexpr std::size_t kRequests = 3;

class Riders {
 public:
  /// Alone: what this rank asks is what all ask.
  Riders() = default;
  /// `memory` is flat and travels by itself, in arrive().
  explicit Riders(tensor::Tensor memory);
  /// `memory` travels with the last bucket, and is found in `arrived` then, which may be the same.
  Riders(tensor::Tensor memory, tensor::Tensor arrived);

  /// How many numbers a model with `parameters` parameters needs.
  static std::size_t count(std::size_t parameters, bool with_parameters);

  void ask(Request request) { asking_[static_cast<std::size_t>(request)] = true; }
  int asked(Request request) const { return asked_[static_cast<std::size_t>(request)]; }

  /// Before the last bucket leaves: this rank's numbers.
  void board();
  void board_parameter(std::size_t parameter, bool reached);

  /// Collective where they travel by themselves. Afterwards asked() and ranks_that_reached() tell the sums.
  void arrive(comm::ProcessGroup& group);
  int ranks_that_reached(std::size_t parameter) const;

 private:
  double at(std::size_t index) const;
  void put(std::size_t index, double value);

  tensor::Tensor memory_;
  tensor::Tensor arrived_;
  bool own_collective_ = false;
  std::array<bool, kRequests> asking_{};
  std::array<int, kRequests> asked_{};
};

}  // namespace tutti::trainer
