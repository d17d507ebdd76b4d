// Event files for TensorBoard: a sequence of Event messages (protocol buffers) in TFRecord frames.
//
//   u64 length | masked crc32c of these 8 bytes | message | masked crc32c of the message        (little endian)
//
// Written by hand: scalars and texts need a dozen fields. Formats:
// https://www.tensorflow.org/tutorials/load_data/tfrecord (frames), tensorflow/core/util/event.proto,
// tensorflow/core/framework/summary.proto and tensor.proto (messages), https://protobuf.dev/programming-guides/encoding
// (their bytes).
#pragma once

#include <tutti/trainer/report/append_file.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tutti::trainer {

struct Scalar {
  std::string_view tag;
  double value = 0;  // TensorBoard keeps a float
};

/// The messages, without frames. `wall_time` is in seconds since 1970.
std::string encode_file_version(double wall_time);
/// Tells the reader to forget what earlier files of the folder say of `step` and later ones.
std::string encode_session_start(double wall_time, std::int64_t step);
std::string encode_scalars(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
/// `markdown` is shown by the text plugin.
std::string encode_text(double wall_time, std::int64_t step, std::string_view tag, std::string_view markdown);

/// `message` in its frame.
std::string tfrecord(std::string_view message);

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected): the checksum of a frame. Source: RFC 3720, appendix B.4,
/// whose examples are in the test.
std::uint32_t crc32c(std::string_view bytes);

/// One new file "events.out.tfevents.SECONDS.HOST.PID" in a folder, which TensorBoard calls a run. Thread-safety: none.
/// All throw std::runtime_error naming the file when it cannot be written.
class EventWriter {
 public:
  /// Creates `folder` if need be.
  EventWriter(const std::filesystem::path& folder, std::int64_t first_step);

  void scalars(std::int64_t step, std::span<const Scalar> scalars);
  void text(std::int64_t step, std::string_view tag, std::string_view markdown);
  void flush() { file_.flush(); }

 private:
  AppendFile file_;
};

}  // namespace tutti::trainer
