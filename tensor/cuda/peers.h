// Memory of a GPU that several processes, or several threads that act as ranks, work on at once, and a stream beside
// the main one. Without CUDA's headers; a build without CUDA links no_cuda/no_cuda.cc, where everything refuses.
//
// Between processes memory is mapped by CUDA IPC
// (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#interprocess-communication); within one, addresses are good
// as they are. Who may touch what at which time is the callers' business: nothing here waits for another process.
// Errors: std::runtime_error with the operation, the device and CUDA's reason.
#pragma once

#include <tutti/tensor/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tutti::tensor::cuda {

/// Which card a device is, whatever its index in a process is.
struct Card {
  std::array<unsigned char, 16> uuid{};
  bool operator==(const Card&) const = default;
};
Card card_of(Device device);

/// Whether kernels on `device` can use the memory of `card`: it is the same one, or a peer of it in this process.
bool reaches(Device device, const Card& card);

/// What another process of this host needs to map a block of memory. Plain bytes, to be sent to it.
struct MemoryTicket {
  std::array<unsigned char, 64> handle{};
  Card card{};
  std::int64_t process = 0;
  std::uint64_t address = 0;  // in that process
  std::uint64_t nbytes = 0;
};

/// `memory` begins its block: a tensor that was allocated, not a part of one. It must outlive the uses of the ticket.
MemoryTicket ticket_for(const Tensor& memory);

/// The memory at this process's address, mapped for `device` until the last copy is gone.
std::shared_ptr<std::byte> open_ticket(const MemoryTicket& ticket, Device device);

inline constexpr int kMostPeers = 16;

enum class Combine { Sum, Prod, Min, Max };

/// For each of `count` elements from `first` on: combines the element of all `peers` in their order and gives each of
/// them the result times `factor` (floating point; 1 leaves it). In the calling thread's current stream of `device`.
/// Throws std::invalid_argument for more than kMostPeers.
void combine_peers(std::span<std::byte* const> peers, std::int64_t first, std::int64_t count, DType dtype,
                   Combine combine, double factor, Device device);

/// A copy within what `device` reaches, in the calling thread's current stream.
void copy_reachable(void* to, const void* from, std::size_t nbytes, Device device);

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
