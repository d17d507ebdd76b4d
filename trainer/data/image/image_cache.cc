#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image_cache.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tuttiimg";
constexpr std::uint64_t kVersion = 1;
constexpr std::string_view kTemporaryMark = ".writing-";
using Digest = std::array<unsigned char, 32>;

class Sha256Sum {
 public:
  Sha256Sum() : context_(EVP_MD_CTX_new()) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void add(const void* data, std::size_t nbytes) { ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, nbytes) == 1; }
  Digest digest() {
    Digest digest{};
    unsigned length = 0;
    if (!ok_ || EVP_DigestFinal_ex(context_.get(), digest.data(), &length) != 1) {
      throw DataError("OpenSSL cannot compute a SHA-256 here");
    }
    return digest;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  bool ok_ = false;
};

fs::path absolute_path(const ImageFolder& folder) {
  std::error_code status;
  const fs::path path = fs::canonical(folder.folder, status);
  return status ? fs::absolute(folder.folder) : path;
}

std::string key_of(const ImageFolder& folder) {
  std::string key = absolute_path(folder).string() + "\n";
  for (const ImageFile& file : folder.files) {
    key += file.path + "\t" + std::to_string(file.size) + "\t" + std::to_string(file.modified_ns) + "\n";
  }
  return key;
}

// All that stands before the flags.
std::string header_of(const ImageFolder& folder, std::int64_t size) {
  const std::string key = key_of(folder);
  std::string header(kMagic);
  for (const std::uint64_t number :
       {kVersion, static_cast<std::uint64_t>(size), std::uint64_t{folder.files.size()}, std::uint64_t{key.size()}}) {
    header.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return header + key;
}

[[noreturn]] void damaged(const fs::path& file, const std::string& what) {
  throw DataError(file.string() + ": this cache of decoded pictures is damaged: " + what);
}

class SummedReader {
 public:
  explicit SummedReader(const fs::path& file) : in_(file, std::ios::binary | std::ios::ate) {
    if (!in_) return;
    size_ = static_cast<std::uint64_t>(in_.tellg());
    in_.seekg(0);
  }
  bool open() const { return in_.is_open(); }
  /// Of the file that is open; by now the path may name another.
  std::uint64_t size() const { return size_; }
  bool read(void* target, std::size_t nbytes) {
    in_.read(static_cast<char*>(target), static_cast<std::streamsize>(nbytes));
    sum_.add(target, static_cast<std::size_t>(in_.gcount()));
    return static_cast<std::size_t>(in_.gcount()) == nbytes;
  }
  Digest digest() { return sum_.digest(); }

 private:
  std::ifstream in_;
  std::uint64_t size_ = 0;
  Sha256Sum sum_;
};

// No other process, on any host, takes the same.
std::string unique_suffix() {
  std::random_device random;
  return std::to_string(::getpid()) + "-" + std::to_string(random()) + std::to_string(random());
}

// A descriptor under a temporary name, removed unless it is renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target)
      : target_(target), name_(target.string() + std::string(kTemporaryMark) + unique_suffix()) {
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) return;
    name_.clear();
    fail("cannot be created");
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* data, std::size_t nbytes) {
    const char* next = static_cast<const char*>(data);
    sum_.add(data, nbytes);
    while (nbytes > 0) {
      const ssize_t done = ::write(descriptor_, next, nbytes);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("cannot be written");
      next += done;
      nbytes -= static_cast<std::size_t>(done);
    }
  }
  void finish() {
    const Digest digest = sum_.digest();
    write(digest.data(), digest.size());
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to its place");
    name_.clear();
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw DataError(target_.string() + ": this cache of decoded pictures " + what + ": " + std::strerror(errno));
  }

  fs::path target_;
  std::string name_;
  int descriptor_ = -1;
  Sha256Sum sum_;
};

void remove_old_leftovers(const fs::path& cache_dir) {
  std::error_code status;
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (fs::directory_iterator entry(cache_dir, status), end; !status && entry != end; entry.increment(status)) {
    const bool leftover = entry->path().filename().string().find(kTemporaryMark) != std::string::npos;
    std::error_code ignored;
    if (leftover && entry->last_write_time(ignored) < yesterday && !ignored) fs::remove(entry->path(), ignored);
  }
}

}  // namespace

fs::path image_cache_file(const fs::path& cache_dir, const ImageFolder& folder, std::int64_t size) {
  const fs::path path = absolute_path(folder);
  Sha256Sum sum;
  sum.add(path.c_str(), path.native().size());
  const Digest digest = sum.digest();
  std::string name = path.filename().string() + "-" + std::to_string(size) + "-";
  for (std::size_t i = 0; i < 8; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    name += kDigits[digest[i] >> 4];
    name += kDigits[digest[i] & 15];
  }
  return cache_dir / (name + ".tuttiimg");
}

std::optional<DecodedFolder> read_image_cache(const fs::path& file, const ImageFolder& folder, std::int64_t size) {
  SummedReader reader(file);
  if (!reader.open()) return std::nullopt;
  const std::string expected = header_of(folder, size);
  std::string header(expected.size(), '\0');
  const bool whole = reader.read(header.data(), header.size());
  if (header.compare(0, kMagic.size(), kMagic) != 0) damaged(file, "it does not begin as one");
  if (!whole || header != expected) return std::nullopt;
  const std::size_t count = folder.files.size();
  const auto side = static_cast<std::uint64_t>(size);
  const std::uint64_t wanted = header.size() + count + count * side * side * 3 + sizeof(Digest);
  if (reader.size() != wanted) {
    damaged(file, "it has " + std::to_string(reader.size()) + " bytes instead of " + std::to_string(wanted));
  }
  DecodedFolder result;
  std::string flags(count, '\0');
  result.images = tensor::Tensor::empty({static_cast<std::int64_t>(count), size, size, 3}, tensor::DType::UInt8);
  if (!reader.read(flags.data(), count) || !reader.read(result.images.raw(), result.images.nbytes())) {
    damaged(file, "it cannot be read to its end");
  }
  const Digest computed = reader.digest();
  Digest stored{};
  if (!reader.read(stored.data(), stored.size()) || stored != computed) damaged(file, "its checksum does not fit");
  for (const char flag : flags) result.decoded.push_back(flag == 1);
  return result;
}

void write_image_cache(const fs::path& file, const ImageFolder& folder, std::int64_t size,
                       const DecodedFolder& decoded) {
  std::error_code status;
  fs::create_directories(file.parent_path(), status);
  if (status) throw DataError(file.parent_path().string() + ": cannot be created: " + status.message());
  remove_old_leftovers(file.parent_path());
  TemporaryFile temporary(file);
  const std::string header = header_of(folder, size);
  temporary.write(header.data(), header.size());
  std::string flags;
  for (const bool done : decoded.decoded) flags += done ? '\1' : '\0';
  temporary.write(flags.data(), flags.size());
  temporary.write(decoded.images.raw(), decoded.images.nbytes());
  temporary.finish();
}

}  // namespace tutti::trainer
