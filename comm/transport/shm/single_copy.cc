#include <sys/uio.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/shm/single_copy.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti::comm {

SingleCopy single_copy_setting() {
  const char* const value = std::getenv("TUTTI_SINGLE_COPY");
  const std::string_view text = value ? value : "auto";
  if (text == "auto") return SingleCopy::Auto;
  if (text == "never") return SingleCopy::Never;
  if (text == "always") return SingleCopy::Always;
  throw Error(ErrorCode::InvalidArgument,
              "TUTTI_SINGLE_COPY is '" + std::string(text) + "': auto, never or always is expected");
}

/// With the data each call reads the segment's nonce: who has it at that place is the process that is meant, and not
/// one that has got its number since it ended.
bool Neighbours::read_memory(int index, std::uint64_t address, std::span<std::byte> into) const {
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // the kernel copies no more than 2 GiB in one call
  const RankState& state = segment_.state(index);
  const pid_t pid = state.pid.load(std::memory_order_acquire);
  const auto place = [](std::uint64_t where) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(where)); };
  while (!into.empty()) {
    std::uint64_t nonce = 0;
    const std::size_t piece = std::min(into.size(), kAtOnce);
    const std::array<iovec, 2> here{{{&nonce, sizeof nonce}, {into.data(), piece}}};
    const std::array<iovec, 2> there{{{place(state.nonce_at), sizeof nonce}, {place(address), piece}}};
    const ssize_t got = ::process_vm_readv(pid, here.data(), here.size(), there.data(), there.size(), 0);
    if (got <= static_cast<ssize_t>(sizeof nonce) || nonce != segment_.nonce()) {
      log(LogLevel::Info, "rank " + std::to_string(rank_of(self_)) + ": the memory of rank " +
                              std::to_string(rank_of(index)) + " cannot be read (" +
                              (got < 0 ? std::strerror(errno) : "not at that place") +
                              "); what is long goes through shared memory");
      return false;
    }
    const std::size_t came = static_cast<std::size_t>(got) - sizeof nonce;
    into = into.subspan(came);
    address += came;
  }
  return true;
}

}  // namespace tutti::comm
