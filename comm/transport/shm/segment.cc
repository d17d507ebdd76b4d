#include <openssl/rand.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/segment.h>
#include <unistd.h>

#include <bit>

namespace tutti::comm {
namespace {

constexpr std::uint64_t kMagic =
    0x31323170'74747574;  // changes with the layout, and with which rank writes which field
constexpr std::size_t kPage = 4096;
// Slots and stages begin so far into a page, where callers' long vectors do not: a copy to less than a line behind the
// source's offset in its page takes a tenth longer (4 KiB aliasing: loads are taken to depend on earlier stores).
constexpr std::size_t kOffPage = 256;
static_assert(kOffPage % kLine == 0 && kOffPage > kLine && kOffPage < kPage);
constexpr std::size_t kLanes = 3;
constexpr std::size_t kMostRingBytes = 1024 * 1024;  // and a page for what both ends tell each other
constexpr std::size_t kLeastRingBytes = 16 * 1024;
constexpr std::size_t kAllRingsBytes = std::size_t{4} << 30;  // of address space, in large worlds

struct Header {
  std::uint64_t magic;
  std::uint64_t nonce;
  std::int32_t ranks;
};
static_assert(sizeof(Header) <= kPage);

std::size_t pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t times(int ranks, std::size_t bytes) { return static_cast<std::size_t>(ranks) * bytes; }

}  // namespace

std::size_t HostSegment::ring_bytes_for(int ranks) {
  const std::size_t each = kAllRingsBytes / (times(ranks, times(ranks, kLanes)));
  return kPage + std::clamp(std::bit_floor(each), kLeastRingBytes, kMostRingBytes);
}

std::size_t HostSegment::bytes_for(int ranks) {
  return kPage + pages(times(ranks, sizeof(RankState))) + pages(times(ranks, kTurns * sizeof(Turn))) + kPage +
         times(ranks, kTurns * kSlotBytes) + times(ranks, kStageBytes) +
         times(ranks, times(ranks, kLanes * ring_bytes_for(ranks)));
}

HostSegment::HostSegment(int ranks, SharedFile file)
    : ranks_(ranks),
      ring_bytes_(ring_bytes_for(ranks)),
      file_(std::move(file)),
      states_(file_.data() + kPage),
      turns_(states_ + pages(times(ranks, sizeof(RankState)))),
      slots_(turns_ + pages(times(ranks, kTurns * sizeof(Turn))) + kOffPage),
      stages_(slots_ + times(ranks, kTurns * kSlotBytes)),
      rings_(stages_ + times(ranks, kStageBytes) + kPage - kOffPage) {}

HostSegment HostSegment::create(int ranks) {
  HostSegment segment(ranks, SharedFile::create("tutti-group", bytes_for(ranks)));
  auto* header = reinterpret_cast<Header*>(segment.file_.data());
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&header->nonce), sizeof header->nonce) != 1)
    throw Error(ErrorCode::System, "OpenSSL has no random bytes for the name of the shared memory");
  header->ranks = ranks;
  header->magic = kMagic;
  return segment;
}

HostSegment HostSegment::open(const Address& address, int ranks) {
  HostSegment segment(ranks, SharedFile::open(address.pid, address.descriptor, bytes_for(ranks)));
  const auto* header = reinterpret_cast<const Header*>(segment.file_.data());
  if (header->magic != kMagic || header->nonce != address.nonce || header->ranks != ranks)
    throw Error(ErrorCode::Protocol, "the shared memory of process ", address.pid,
                " is not this group's, or was made by another version of the program");
  return segment;
}

HostSegment::Address HostSegment::address() const {
  const auto* header = reinterpret_cast<const Header*>(file_.data());
  return {static_cast<std::int32_t>(::getpid()), file_.descriptor(), header->nonce};
}

std::byte* HostSegment::ring(int from, int to, int lane) const {
  return rings_ +
         (times(from, static_cast<std::size_t>(ranks_)) + static_cast<std::size_t>(to)) * kLanes * ring_bytes_ +
         times(lane, ring_bytes_);
}

}  // namespace tutti::comm
