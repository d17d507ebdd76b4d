#include <tutti/comm/base/host_name.h>
#include <tutti/trainer/report/tensorboard_events.h>
#include <unistd.h>

#include <array>
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

/// What all events begin with: wall_time = 1, step = 2 (absent where it is 0).
void begin_event(std::string& out, double wall_time, std::int64_t step) {
  out.clear();
  put_key(out, 1, Wire::Fixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(wall_time));
  if (step != 0) put_int(out, 2, step);
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

void encode_file_version(std::string& out, double wall_time) {
  begin_event(out, wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");  // Event.file_version
}

void encode_session_start(std::string& out, double wall_time, std::int64_t step) {
  begin_event(out, wall_time, step);
  put_bytes(out, 7, std::string_view("\x08\x01", 2));  // Event.session_log {status = 1: START}
}

void encode_scalars(std::string& out, double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string value, summary;
  for (const Scalar& scalar : scalars) {
    value.clear();
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::Fixed32);  // simple_value
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);  // Summary.value
  }
  begin_event(out, wall_time, step);
  put_bytes(out, 5, summary);  // Event.summary
}

void encode_text(std::string& out, double wall_time, std::int64_t step, std::string_view tag,
                 std::string_view markdown) {
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
  begin_event(out, wall_time, step);
  put_bytes(out, 5, summary);
}

void append_tfrecord(std::string& out, std::string_view message) {
  const auto put_masked_sum = [&](std::string_view bytes) {
    const std::uint32_t sum = crc32c(bytes);
    put_little_endian(out, static_cast<std::uint32_t>((sum >> 15 | sum << 17) + 0xA282EAD8U));
  };
  const std::size_t begin = out.size();
  put_little_endian(out, static_cast<std::uint64_t>(message.size()));
  put_masked_sum(std::string_view(out).substr(begin, 8));
  out += message;
  put_masked_sum(message);
}

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t first_step) : file_(new_event_file(folder)) {
  encode_file_version(message_, seconds_since_1970());
  write();
  if (first_step > 0) {
    encode_session_start(message_, seconds_since_1970(), first_step);
    write();
  }
}

void EventWriter::scalars(std::int64_t step, std::span<const Scalar> scalars) {
  encode_scalars(message_, seconds_since_1970(), step, scalars);
  write();
}

void EventWriter::text(std::int64_t step, std::string_view tag, std::string_view markdown) {
  encode_text(message_, seconds_since_1970(), step, tag, markdown);
  write();
}

void EventWriter::write() {
  frame_.clear();
  append_tfrecord(frame_, message_);
  file_.append(frame_);
}

namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kReflectedPolynomial : 0);
    table[byte] = sum;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t sum = ~std::uint32_t{0};
  for (const char c : bytes) sum = (sum >> 8) ^ kTable[(sum ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~sum;
}

}  // namespace tutti::trainer
