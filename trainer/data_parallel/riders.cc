#include <tutti/trainer/data_parallel/riders.h>
#include <tutti/trainer/tensor_comm.h>

#include <cmath>

namespace tutti::trainer {

Riders::Riders(tensor::Tensor memory) : memory_(memory), arrived_(std::move(memory)), own_collective_(true) {}

Riders::Riders(tensor::Tensor memory, tensor::Tensor arrived)
    : memory_(std::move(memory)), arrived_(std::move(arrived)) {}

std::size_t Riders::count(std::size_t parameters, bool with_parameters) {
  return kRequests + (with_parameters ? parameters : 0);
}

double Riders::at(std::size_t index) const {
  return arrived_.dtype() == tensor::DType::Float64 ? arrived_.data<double>()[index]
                                                    : static_cast<double>(arrived_.data<float>()[index]);
}

void Riders::put(std::size_t index, double value) {
  if (memory_.dtype() == tensor::DType::Float64) {
    memory_.data<double>()[index] = value;
  } else {
    memory_.data<float>()[index] = static_cast<float>(value);
  }
}

void Riders::board() {
  if (!memory_.defined()) return;
  memory_.fill(0);
  for (std::size_t i = 0; i < kRequests; ++i) put(i, asking_[i] ? 1 : 0);
}

void Riders::board_parameter(std::size_t parameter, bool reached) { put(kRequests + parameter, reached ? 1 : 0); }

void Riders::arrive(comm::ProcessGroup& group) {
  if (memory_.defined() && own_collective_) all_reduce(group, memory_);
  for (std::size_t i = 0; i < kRequests; ++i) {
    asked_[i] = memory_.defined() ? static_cast<int>(std::lround(at(i))) : static_cast<int>(asking_[i]);
    asking_[i] = false;
  }
}

int Riders::ranks_that_reached(std::size_t parameter) const {
  return static_cast<int>(std::lround(at(kRequests + parameter)));
}

}  // namespace tutti::trainer
