#include <openssl/evp.h>
#include <tutti/trainer/checkpoint/sha256.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <vector>

namespace tutti::trainer {

struct Sha256::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    if (evp == nullptr) throw std::bad_alloc();
    if (EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) != 1) {
      EVP_MD_CTX_free(evp);
      throw std::runtime_error("OpenSSL offers no SHA-256 on this machine (is a restricted provider configured?)");
    }
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* evp;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::add(const void* data, std::size_t nbytes) {
  if (!context_) throw std::logic_error("Sha256::add after digest()");
  if (nbytes > 0) EVP_DigestUpdate(context_->evp, data, nbytes);
  return *this;
}

Sha256::Digest Sha256::digest() {
  if (!context_) throw std::logic_error("Sha256::digest called twice");
  Digest result{};
  EVP_DigestFinal_ex(context_->evp, result.data(), nullptr);
  context_.reset();
  return result;
}

std::string hex(const Sha256::Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_of_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + file.string() + ": " + std::strerror(errno));
  Sha256 sum;
  std::vector<char> block(std::size_t{1} << 20);
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) || stream.gcount() > 0) {
    sum.add(block.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) throw std::runtime_error("cannot read " + file.string() + ": " + std::strerror(errno));
  return hex(sum.digest());
}

}  // namespace tutti::trainer
