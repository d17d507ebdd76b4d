#include <tutti/comm/base/host_name.h>
#include <tutti/trainer/report/tensorboard_events.h>
#include <unistd.h>

#include <bit>
#include <chrono>

namespace tutti::trainer {
namespace {

enum class Wire : unsigned { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (unsigned shift = 0; shift < 8 * sizeof value; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
}

void put_key(std::string& out, unsigned field, Wire wire) { put_varint(out, field << 3 | static_cast<unsigned>(wire)); }

void put_int(std::string& out, unsigned field, std::int64_t value) {
  put_key(out, field, Wire::Varint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, Wire::Bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

/// wall_time = 1, step = 2 (absent where it is 0), and what the event is.
std::string event(double wall_time, std::int64_t step, unsigned field, std::string_view payload) {
  std::string out;
  put_key(out, 1, Wire::Fixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(wall_time));
  if (step != 0) put_int(out, 2, step);
  put_bytes(out, field, payload);
  return out;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path new_event_file(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw std::runtime_error("cannot create the folder " + folder.string() + ": " + error.message());
  const std::string name = "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(seconds_since_1970())) +
                           "." + comm::host_name() + "." + std::to_string(::getpid());
  for (int copy = 0;; ++copy) {  // several runs of one process within a second
    const std::filesystem::path file = folder / (name + "." + std::to_string(copy));
    if (!std::filesystem::exists(file)) return file;
  }
}

}  // namespace

std::string encode_file_version(double wall_time) {
  return event(wall_time, 0, 3, "brain.Event:2");  // Event.file_version
}

std::string encode_session_start(double wall_time, std::int64_t step) {
  return event(wall_time, step, 7, std::string_view("\x08\x01", 2));  // Event.session_log {status = 1: START}
}

std::string encode_scalars(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::Fixed32);  // simple_value
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);  // Summary.value
  }
  return event(wall_time, step, 5, summary);  // Event.summary
}

std::string encode_text(double wall_time, std::int64_t step, std::string_view tag, std::string_view markdown) {
  constexpr std::int64_t kString = 7;       // DataType.DT_STRING
  constexpr std::int64_t kTensorClass = 2;  // DataClass.DATA_CLASS_TENSOR
  std::string plugin, metadata, tensor, value, summary;
  put_bytes(plugin, 1, "text");                                   // PluginData.plugin_name
  put_bytes(metadata, 1, plugin);                                 // SummaryMetadata.plugin_data
  put_int(metadata, 4, kTensorClass);                             // SummaryMetadata.data_class
  put_int(tensor, 1, kString);                                    // TensorProto.dtype
  put_bytes(tensor, 2, std::string_view("\x12\x02\x08\x01", 4));  // TensorProto.tensor_shape {dim {size: 1}}
  put_bytes(tensor, 8, markdown);                                 // TensorProto.string_val
  put_bytes(value, 1, tag);
  put_bytes(value, 8, tensor);    // Summary.Value.tensor
  put_bytes(value, 9, metadata);  // Summary.Value.metadata
  put_bytes(summary, 1, value);
  return event(wall_time, step, 5, summary);
}

std::string tfrecord(std::string_view message) {
  std::string out;
  const auto put_masked_sum = [&](std::string_view bytes) {
    const std::uint32_t sum = crc32c(bytes);
    put_little_endian(out, static_cast<std::uint32_t>((sum >> 15 | sum << 17) + 0xA282EAD8U));
  };
  put_little_endian(out, static_cast<std::uint64_t>(message.size()));
  put_masked_sum(out);
  out += message;
  put_masked_sum(message);
  return out;
}

std::uint32_t crc32c(std::string_view bytes) {
  constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;
  std::uint32_t sum = ~std::uint32_t{0};
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kReflectedPolynomial : 0);
  }
  return ~sum;
}

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t first_step) : file_(new_event_file(folder)) {
  file_.append(tfrecord(encode_file_version(seconds_since_1970())));
  if (first_step > 0) file_.append(tfrecord(encode_session_start(seconds_since_1970(), first_step)));
}

void EventWriter::scalars(std::int64_t step, std::span<const Scalar> scalars) {
  file_.append(tfrecord(encode_scalars(seconds_since_1970(), step, scalars)));
}

void EventWriter::text(std::int64_t step, std::string_view tag, std::string_view markdown) {
  file_.append(tfrecord(encode_text(seconds_since_1970(), step, tag, markdown)));
}

}  // namespace tutti::trainer
