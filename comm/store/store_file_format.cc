#include <tutti/comm/base/error.h>
#include <tutti/comm/store/store_file_format.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/little_endian.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// The first byte is no text and no UTF-8, so that no text file begins like this.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'T', 'U', 'T', 'T', 'I', 'F', 'S'};
constexpr std::uint32_t kVersion = 2;

// Offsets.
constexpr std::size_t kVersionAt = 8, kWorldSizeAt = 12, kPidAt = 16, kCreatedAt = 24, kJobAt = 32, kCommittedAt = 40,
                      kHostAt = 64, kJobIdAt = 128;
constexpr std::size_t kChecksumBytes = 8;

void put_text(std::span<std::byte> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  std::copy_n(std::as_bytes(std::span(text)).begin(), length, field.begin());
}

std::string get_text(std::span<const std::byte> field) {
  const std::string_view text(reinterpret_cast<const char*>(field.data()), field.size());
  return std::string(text.substr(0, text.find('\0')));
}

[[noreturn]] void foreign(const std::string& path, const std::string& found) {
  throw Error(ErrorCode::Protocol, "the store file " + path + " is foreign: " + found +
                                       "; it was left as it is. Name another path, or remove it");
}

[[noreturn]] void half_written(const std::string& path, const std::string& found) {
  throw Error(ErrorCode::Protocol, "the store file " + path + " is half-written: " + found +
                                       ". Remove it and start the job again; the first rank makes it anew");
}

void check_magic(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.empty())
    half_written(path, "it is empty, so somebody else made it beforehand, or its file system has lost it");
  const std::size_t length = std::min(bytes.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + length, bytes.begin(),
                  [](unsigned char want, std::byte have) { return std::byte{want} == have; }))
    foreign(path, "it begins with " + quote_bytes(bytes) + ", which is no file of a Tutti store");
  if (bytes.size() < kStoreFileHeaderBytes)
    half_written(path, "it ends after " + std::to_string(bytes.size()) + " of " +
                           std::to_string(kStoreFileHeaderBytes) + " bytes of its header");
}

}  // namespace

std::array<std::byte, kStoreFileHeaderBytes> encode_store_file_header(const StoreFileHeader& header) {
  std::array<std::byte, kStoreFileHeaderBytes> bytes{};
  std::transform(kMagic.begin(), kMagic.end(), bytes.begin(), [](unsigned char c) { return std::byte{c}; });
  put_little_endian(&bytes[kVersionAt], kVersion);
  put_little_endian(&bytes[kWorldSizeAt], static_cast<std::uint32_t>(header.world_size));
  put_little_endian(&bytes[kPidAt], header.pid);
  put_little_endian(&bytes[kCreatedAt], header.created);
  put_little_endian(&bytes[kJobAt], header.job);
  put_little_endian(&bytes[kCommittedAt], header.committed);
  put_text(std::span(bytes).subspan(kHostAt, kJobIdAt - kHostAt), header.host);
  put_text(std::span(bytes).subspan(kJobIdAt), header.job_id);
  return bytes;
}

StoreFileHeader decode_store_file_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                         const std::string& path) {
  check_magic(bytes, path);
  const auto version = get_little_endian<std::uint32_t>(&bytes[kVersionAt]);
  if (version != kVersion)
    foreign(path, "it has version " + std::to_string(version) + " of the format, and this program knows version " +
                      std::to_string(kVersion));
  StoreFileHeader header;
  header.world_size = static_cast<std::int32_t>(get_little_endian<std::uint32_t>(&bytes[kWorldSizeAt]));
  header.pid = get_little_endian<std::uint32_t>(&bytes[kPidAt]);
  header.created = get_little_endian<std::uint64_t>(&bytes[kCreatedAt]);
  header.job = get_little_endian<std::uint64_t>(&bytes[kJobAt]);
  header.committed = get_little_endian<std::uint64_t>(&bytes[kCommittedAt]);
  header.host = get_text(bytes.subspan(kHostAt, kJobIdAt - kHostAt));
  header.job_id = get_text(bytes.subspan(kJobIdAt, kStoreFileHeaderBytes - kJobIdAt));
  if (header.committed < kStoreFileHeaderBytes)
    half_written(path, "its header says that its records end at byte " + std::to_string(header.committed));
  if (header.committed > file_bytes)
    half_written(path, "its records should reach to byte " + std::to_string(header.committed) + ", but it has " +
                           std::to_string(file_bytes));
  return header;
}

void append_store_record(std::string& out, const StoreRequest& request) {
  const std::size_t begin = out.size();
  out.resize(begin + kChecksumBytes);
  append_store_message(out, static_cast<std::uint8_t>(request.op), 0, 0, request.body);
  put_little_endian(reinterpret_cast<std::byte*>(out.data() + begin),
                    identity_hash(std::string_view(out).substr(begin + kChecksumBytes)));
}

std::optional<StoreRequest> next_store_record(std::string_view bytes, std::size_t& at, std::uint64_t offset,
                                              const std::string& path) {
  constexpr std::size_t kFixedBytes = kChecksumBytes + kStoreHeaderBytes;
  if (at == bytes.size()) return std::nullopt;
  const std::string where = "the record at byte " + std::to_string(offset + at);
  const std::string_view rest = bytes.substr(at);
  if (rest.size() < kFixedBytes) half_written(path, where + " ends within its own header");
  const auto record = std::as_bytes(std::span(rest));
  const StoreHeader header = decode_store_header(record.subspan<kChecksumBytes, kStoreHeaderBytes>());
  if (header.body_bytes > rest.size() - kFixedBytes)
    half_written(path, where + " has " + std::to_string(rest.size()) + " of " +
                           std::to_string(kFixedBytes + header.body_bytes) + " bytes");
  const std::size_t record_bytes = kFixedBytes + header.body_bytes;
  if (get_little_endian<std::uint64_t>(record.data()) !=
      identity_hash(rest.substr(kChecksumBytes, record_bytes - kChecksumBytes)))
    half_written(path, where + " is damaged: its bytes do not have the checksum that it names");
  at += record_bytes;
  return StoreRequest{static_cast<StoreOp>(header.code),
                      decode_store_body(record.subspan(kFixedBytes, header.body_bytes))};
}

}  // namespace tutti::comm
