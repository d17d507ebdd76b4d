#include <fcntl.h>
#include <openssl/evp.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/trainer/checkpoint/files.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace tutti::trainer {
namespace {

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, int error_number) {
  throw std::system_error(error_number, std::generic_category(), "cannot " + what + " " + path.string());
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags, const char* what)
      : number_(::open(path.c_str(), flags, 0666)) {
    if (number_ < 0) fail(what, path, errno);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

std::string read_whole_file(const std::filesystem::path& file) {
  const Descriptor descriptor(file, O_RDONLY | O_CLOEXEC, "read");
  std::string bytes;
  std::string block(std::size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(descriptor.number(), block.data(), block.size());
    if (got == 0) return bytes;
    if (got > 0) {
      bytes.append(block.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      fail("read", file, errno);
    }
  }
}

void write_durably(const std::filesystem::path& file, std::string_view bytes) {
  const Descriptor descriptor(file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, "write");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor.number(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail("write", file, errno);
    }
  }
  if (::fsync(descriptor.number()) != 0 && errno != EINVAL) fail("write", file, errno);  // EINVAL: a pipe or a terminal
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, "open folder");
  if (::fsync(descriptor.number()) != 0 && errno != EINVAL) fail("sync folder", folder, errno);
}

void replace_file(const std::filesystem::path& file, std::string_view bytes) { comm::write_output(file, bytes); }

void check_writable(const std::filesystem::path& file) { const comm::OutputFile probe(file); }

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  if (EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL offers no SHA-256 on this machine (is a restricted provider configured?)");
  }
}

Sha256& Sha256::add(const void* data, std::size_t nbytes) {
  if (!context_) throw std::logic_error("Sha256::add after digest()");
  if (nbytes > 0) EVP_DigestUpdate(context_.get(), data, nbytes);
  return *this;
}

Sha256::Digest Sha256::digest() {
  if (!context_) throw std::logic_error("Sha256::digest called twice");
  Digest result{};
  EVP_DigestFinal_ex(context_.get(), result.data(), nullptr);
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
