// Digest: a running checksum of bytes by OpenSSL, for checkpoints, caches, data sets, and models that ranks compare.
//
// MD5 is what data sets are published with: a check against damage in transfer, not against malice.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct evp_md_ctx_st;  // OpenSSL's

namespace tutti::trainer {

class Digest {
 public:
  enum class Kind { Sha256, Md5 };

  /// Throws std::runtime_error when OpenSSL has no such sum here (a restricted provider).
  explicit Digest(Kind kind = Kind::Sha256);
  Digest& add(const void* data, std::size_t nbytes);
  Digest& add(std::string_view bytes) { return add(bytes.data(), bytes.size()); }
  /// Ends the sum; anything afterwards throws std::logic_error.
  std::vector<unsigned char> bytes();
  /// The same as text.
  std::string hex();  // lower-case
  std::string base64();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;  // null after bytes()
};

/// hex() of a file's content. Throws std::system_error naming the file when it cannot be read.
std::string digest_of_file(const std::filesystem::path& file, Digest::Kind kind = Digest::Kind::Sha256);

}  // namespace tutti::trainer
