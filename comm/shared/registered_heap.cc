#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/shared/registered_heap.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace tutti::comm {
namespace {

// A description is the number of the entry and the offset in its buffer.
constexpr unsigned kOffsetBits = 56;
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kOffsetBits) - 1;
static_assert(kAllocations <= 256);

/// Linux would grant more memory than there is, and kill the process when it is touched.
void require_memory(std::size_t bytes) {
  std::ifstream table("/proc/meminfo");
  std::uint64_t free_kib = 0, kib = 0;
  bool known = false;
  for (std::string name, rest; table >> name >> kib && std::getline(table, rest);) {
    if (name != "MemAvailable:" && name != "SwapFree:") continue;
    free_kib += kib;
    known = known || name == "MemAvailable:";
  }
  if (known && bytes / 1024 > free_kib)
    throw Error(ErrorCode::System, "a buffer of ", bytes, " bytes: this host has ", free_kib,
                " KiB of memory and swap left");
}

std::shared_ptr<std::byte> ordinary(std::size_t bytes) {
  constexpr auto alignment = std::align_val_t(kLine);
  auto* data = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), alignment));
  std::memset(data, 0, bytes);
  return {data, [](std::byte* memory) { ::operator delete(memory, alignment); }};
}

}  // namespace

/// What this rank has registered.
struct RegisteredHeap::Registry {
  std::mutex mutex;
  std::vector<SharedFile> files = std::vector<SharedFile>(kAllocations);
  std::size_t used = 0;        // entries from this one on have never been in use
  RankState* state = nullptr;  // null once the group has ended
  std::uint64_t next_id = 1;
  bool warned = false;

  void release(std::size_t entry) {
    std::lock_guard lock(mutex);
    if (state) state->allocations[entry].id.store(0, std::memory_order_release);
    files[entry] = SharedFile();
  }
};

RegisteredHeap::RegisteredHeap(Neighbours* neighbours)
    : neighbours_(neighbours), registry_(std::make_shared<Registry>()) {
  if (!neighbours_) return;
  mappings_.resize(static_cast<std::size_t>(neighbours_->size()));
  registry_->state = &neighbours_->segment().state(neighbours_->self());
}

RegisteredHeap::~RegisteredHeap() {
  std::lock_guard lock(registry_->mutex);
  registry_->state = nullptr;
}

std::shared_ptr<std::byte> RegisteredHeap::allocate(std::size_t bytes) {
  require_memory(bytes);
  if (!neighbours_ || bytes == 0) return ordinary(bytes);
  std::lock_guard lock(registry_->mutex);
  auto& files = registry_->files;
  const auto free = std::ranges::find_if(files, [](const SharedFile& file) { return !file.data(); });
  if (free == files.end()) {
    if (!std::exchange(registry_->warned, true))
      log(LogLevel::Warn, "all ", kAllocations,
          " registered buffers of a group are in use: further ones are ordinary memory, which is copied");
    return ordinary(bytes);
  }
  *free = SharedFile::create("tutti-buffer", bytes, /*populate=*/true);
  const auto entry = static_cast<std::size_t>(free - files.begin());
  registry_->used = std::max(registry_->used, entry + 1);
  AllocationEntry& listed = registry_->state->allocations[entry];
  listed.bytes = bytes;
  listed.descriptor = free->descriptor();
  listed.id.store(registry_->next_id++, std::memory_order_release);
  return {free->data(), [registry = registry_, entry](std::byte*) { registry->release(entry); }};
}

std::optional<std::uint64_t> RegisteredHeap::describe(const void* data, std::size_t bytes) const {
  if (!neighbours_) return std::nullopt;
  std::lock_guard lock(registry_->mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t entry = 0; entry < registry_->used; ++entry) {
    const SharedFile& file = registry_->files[entry];
    const auto begin = reinterpret_cast<std::uintptr_t>(file.data());
    if (begin == 0 || address < begin || address - begin > file.size() || file.size() - (address - begin) < bytes)
      continue;
    return std::uint64_t{entry} << kOffsetBits | (address - begin);
  }
  return std::nullopt;
}

std::byte* RegisteredHeap::resolve(int index, std::uint64_t description, std::size_t bytes) {
  const auto entry = static_cast<std::size_t>(description >> kOffsetBits);
  const std::uint64_t offset = description & kOffsetMask;
  const RankState& owner = neighbours_->segment().state(index);
  const auto whose = [&] { return joined("registered buffer ", entry, " of rank ", neighbours_->rank_of(index)); };
  if (entry >= kAllocations) throw Error(ErrorCode::Protocol, whose(), ": there is no such entry");
  const AllocationEntry& listed = owner.allocations[entry];
  const std::uint64_t id = listed.id.load(std::memory_order_acquire);
  if (id == 0 || offset > listed.bytes || listed.bytes - offset < bytes)
    throw Error(ErrorCode::Protocol, whose(),
                " was announced, but is not there or too short: was it freed during an "
                "operation?");
  auto& mappings = mappings_[static_cast<std::size_t>(index)];
  if (mappings.size() <= entry) mappings.resize(entry + 1);
  Mapping& mapping = mappings[entry];
  if (mapping.id != id) {
    mapping.file = SharedFile::open(owner.pid.load(std::memory_order_acquire), listed.descriptor, listed.bytes);
    mapping.id = id;
  }
  return mapping.file.data() + offset;
}

}  // namespace tutti::comm
