#include <tutti/tests/trainer/data/data_files.h>
#include <zlib.h>

#include <stdexcept>

namespace tutti::trainer {

Bytes gzip(const Bytes& content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  Bytes packed(deflateBound(&stream, content.size()));
  Bytes input = content;
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.erase(packed.begin() + static_cast<std::ptrdiff_t>(stream.total_out), packed.end());
  deflateEnd(&stream);
  if (status != Z_STREAM_END) {
    throw std::runtime_error("deflate failed");
  }
  return packed;
}

}  // namespace tutti::trainer
