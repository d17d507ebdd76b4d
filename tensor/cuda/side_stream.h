// What the exchange of gradients needs of a GPU: which card a device is, pages of the host to copy through, and a
// stream beside the main one. Without CUDA's headers; a build without CUDA links no_cuda/no_cuda.cc, where everything
// refuses. Errors: std::runtime_error with the operation, the device and CUDA's reason.
#pragma once

#include <tutti/tensor/device.h>

#include <array>
#include <cstddef>
#include <memory>

namespace tutti::tensor::cuda {

/// Which card a device is, whatever its index in a process is.
struct Card {
  std::array<unsigned char, 16> uuid{};
  bool operator==(const Card&) const = default;
};
Card card_of(Device device);

/// Pages of the host that a GPU copies from and to at full speed while the result lives.
std::shared_ptr<void> page_lock(void* memory, std::size_t nbytes, Device device);

class Event;

/// A stream of one's own, and points in streams.
class SideStream {
 public:
  explicit SideStream(Device device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// What the calling thread has put into its current stream so far. Any thread, while another one works in Scope.
  std::shared_ptr<const Event> current_point() const;
  /// What is put into this stream from now on comes after that.
  void follow(const Event& point);
  /// The other way round: what the calling thread puts into its current stream from now on comes after what is in this
  /// one. By the thread that works in Scope, outside of it.
  void join_current();

  /// The calling thread's operations on the device go into this stream.
  class Scope {
   public:
    explicit Scope(SideStream& stream);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Inside;
    std::unique_ptr<Inside> inside_;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::tensor::cuda
