#include <openssl/evp.h>
#include <tutti/comm/base/format.h>
#include <tutti/trainer/data/digest.h>

#include <cerrno>
#include <fstream>
#include <new>
#include <stdexcept>
#include <system_error>

namespace tutti::trainer {

void Digest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Digest::Digest(Kind kind) : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  const bool sha256 = kind == Kind::Sha256;
  if (EVP_DigestInit_ex(context_.get(), sha256 ? EVP_sha256() : EVP_md5(), nullptr) == 1) return;
  throw std::runtime_error(std::string("OpenSSL offers no ") + (sha256 ? "SHA-256" : "MD5") +
                           " on this machine (is a restricted provider configured?)");
}

Digest& Digest::add(const void* data, std::size_t nbytes) {
  if (!context_) throw std::logic_error("Digest::add after its end");
  if (nbytes > 0) EVP_DigestUpdate(context_.get(), data, nbytes);
  return *this;
}

std::vector<unsigned char> Digest::bytes() {
  if (!context_) throw std::logic_error("Digest::bytes called twice");
  std::vector<unsigned char> result(EVP_MAX_MD_SIZE);
  unsigned length = 0;
  EVP_DigestFinal_ex(context_.get(), result.data(), &length);
  context_.reset();
  result.resize(length);
  return result;
}

std::string Digest::hex() { return comm::hex_digits(bytes()); }

std::string Digest::base64() {
  const std::vector<unsigned char> sum = bytes();
  std::string text(2 * EVP_MAX_MD_SIZE, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), sum.data(), static_cast<int>(sum.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string digest_of_file(const std::filesystem::path& file, Digest::Kind kind) {
  const auto fail = [&] { throw std::system_error(errno, std::generic_category(), "cannot read " + file.string()); };
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail();
  Digest sum(kind);
  std::vector<char> block(std::size_t{1} << 20);
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) || stream.gcount() > 0) {
    sum.add(block.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) fail();
  return sum.hex();
}

}  // namespace tutti::trainer
