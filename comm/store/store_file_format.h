// The bytes of a FileStore's file: encode and decode only. Internal to comm/store.
//
// Pure functions, no I/O. Layout: wire_format.md, "Store file". Decoders take any bytes whatever and throw Protocol
// with a text that tells a foreign file from a half-written one and says what to do. Thread-safety: values and pure
// functions.
#pragma once

#include <tutti/comm/store/store.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::comm {

inline constexpr std::size_t kStoreFileHeaderBytes = 256;

/// Records are in bytes [kStoreFileHeaderBytes, committed); what is beyond has no meaning.
struct StoreFileHeader {
  std::int32_t world_size = -1;
  std::uint32_t pid = 0;      // of the process that made the file
  std::uint64_t created = 0;  // seconds since 1970
  std::uint64_t job = 0;      // identity_hash(job id)
  std::uint64_t committed = kStoreFileHeaderBytes;
  std::string host;    // cut to 63 bytes
  std::string job_id;  // cut to 127 bytes; `job` tells ids apart
};

std::array<std::byte, kStoreFileHeaderBytes> encode_store_file_header(const StoreFileHeader& header);

/// `bytes` is what the file begins with, up to kStoreFileHeaderBytes of it; `file_bytes` its size.
StoreFileHeader decode_store_file_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                         const std::string& path);

/// A record is a request that was carried out: a checksum, then the request as on the wire (store_protocol.h).
void append_store_record(std::string& out, const StoreRequest& request);

/// The record that begins at `at`, which moves behind it; nothing at the end of `bytes`. `offset` is where `bytes` lie
/// in the file, for texts. The request's strings are views of `bytes`.
std::optional<StoreRequest> next_store_record(std::string_view bytes, std::size_t& at, std::uint64_t offset,
                                              const std::string& path);

}  // namespace tutti::comm
