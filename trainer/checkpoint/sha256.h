// Sha256: running checksum of bytes, as lower-case hex. Used for checkpoints and for comparing models between ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace tutti::trainer {

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& add(const void* data, std::size_t nbytes);
  Sha256& add(const std::string& text) { return add(text.data(), text.size()); }
  /// Ends the sum; add() afterwards throws std::logic_error.
  Digest digest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// 64 lower-case hex digits.
std::string hex(const Sha256::Digest& digest);

/// Throws std::runtime_error naming the file and errno's words when it cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace tutti::trainer
