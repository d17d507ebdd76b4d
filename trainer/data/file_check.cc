#include <openssl/evp.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/file_check.h>
#include <tutti/trainer/data/file_source.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace tutti::trainer {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

struct ContextFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string to_hex(const unsigned char* bytes, unsigned count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

std::string md5_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw DataError(path.string() + ": cannot be opened: " + std::strerror(errno));
  }
  const std::unique_ptr<EVP_MD_CTX, ContextFree> context(EVP_MD_CTX_new());
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) == 1;
  std::vector<char> block(kBlockBytes);
  while (ok && file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    ok = EVP_DigestUpdate(context.get(), block.data(), static_cast<std::size_t>(file.gcount())) == 1;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  ok = ok && !file.bad() && EVP_DigestFinal_ex(context.get(), digest.data(), &length) == 1;
  if (!ok) {
    throw DataError(path.string() +
                    ": its MD5 cannot be computed (the file cannot be read, or OpenSSL has no MD5 here)");
  }
  return to_hex(digest.data(), length);
}

void check_gzip(const std::filesystem::path& path) {
  FileSource source(path);
  std::vector<char> block(kBlockBytes);
  while (source.read(block.data(), block.size()) == block.size()) {
  }
}

}  // namespace tutti::trainer
