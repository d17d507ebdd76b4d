// Files that are complete or absent, and checksums: the few system calls behind checkpoints and reports.
//
// All functions throw std::system_error (a std::runtime_error) with the path and errno's words. None is atomic by
// itself; the order of calls in checkpoint.cc is what makes a checkpoint so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace tutti::trainer {

std::string read_whole_file(const std::filesystem::path& file);

/// Creates or replaces `file`; its bytes are on the disk (fsync) when this returns.
void write_durably(const std::filesystem::path& file, std::string_view bytes);

/// Makes renames and new names in `folder` survive a power failure.
void sync_folder(const std::filesystem::path& folder);

/// Writes an OutputFile (comm/base/output_file.h): a reader sees the old contents or the new, never a mixture; "-" is
/// standard output.
void replace_file(const std::filesystem::path& file, std::string_view bytes);

/// Throws unless a file of this name could be written: the folder exists and lets us create names in it. Creates
/// nothing that stays.
void check_writable(const std::filesystem::path& file);

/// Running checksum of bytes: of checkpoints, and of models that ranks compare.
class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256();
  Sha256& add(const void* data, std::size_t nbytes);
  Sha256& add(const std::string& text) { return add(text.data(), text.size()); }
  /// Ends the sum; add() afterwards throws std::logic_error.
  Digest digest();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;  // null after digest()
};

/// 64 lower-case hex digits.
std::string hex(const Sha256::Digest& digest);

/// Throws std::runtime_error naming the file and errno's words when it cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace tutti::trainer
