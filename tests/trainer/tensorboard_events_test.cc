#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/tensorboard_events.h>

#include <cstring>

namespace tutti::trainer {
namespace {

std::string as_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
  }
  return text;
}

std::string framed(const std::string& message) {
  std::string out;
  append_tfrecord(out, message);
  return as_hex(out);
}

/// The messages in the frames of `bytes`; fails on a wrong length or checksum.
std::vector<std::string> unframed(std::string bytes) {
  std::vector<std::string> messages;
  while (bytes.size() >= 16) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    if (length > bytes.size() - 16) break;
    messages.push_back(bytes.substr(12, length));
    std::string again;
    append_tfrecord(again, messages.back());
    EXPECT_EQ(as_hex(again), as_hex(bytes.substr(0, again.size())));
    bytes.erase(0, again.size());
  }
  EXPECT_EQ(bytes, "");
  return messages;
}

TEST(Crc32c, GivesTheExamplesOfRfc3720) {
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(ascending), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(ascending.rbegin(), ascending.rend())), 0x113FDB5CU);
  EXPECT_EQ(crc32c(""), 0U);
}

// Bytes written by tensorboard 2.20's own RecordWriter and its generated protocol buffers from the same values.
TEST(TensorboardEvents, BytesAreTensorboardsOwn) {
  std::string message;
  encode_file_version(message, 1700000000.25);
  EXPECT_EQ(framed(message), "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
  encode_session_start(message, 1700000000.25, 300);
  EXPECT_EQ(framed(message), "100000000000000095fbfe180900001040fc54d94110ac023a0208016b3b88f1");
  const Scalar scalars[] = {{"loss/step", 0.1}, {"learning_rate", 1e-3}};
  encode_scalars(message, 1700000001.5, 300, scalars);
  EXPECT_EQ(framed(message),
            "36000000000000004f578cef0900006040fc54d94110ac022a280a100a096c6f73732f7374657015cdcccc3d0a140a0d6c6561726e"
            "696e675f72617465156f12833a6e81fc37");
  encode_text(message, 2.0, 0, "options", "| a |");
  EXPECT_EQ(framed(message),
            "33000000000000000ca720560900000000000000402a280a260a076f7074696f6e73420f080712041202080142057c2061207c4a0a"
            "0a060a0474657874200231154fc6");
}

TEST(TensorboardEvents, FileHoldsVersionStartAndPoints) {
  const TemporaryFolder folder;
  {
    EventWriter first(folder / "rank-0", 0);
    EventWriter second(folder / "rank-0", 40);  // within the same second, by the same process
    const Scalar point[] = {{"loss/step", 0.5}};
    for (int step = 40; step < 1000; ++step) second.scalars(step, point);
  }
  std::vector<std::size_t> counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "rank-0")) {
    EXPECT_EQ(entry.path().filename().string().rfind("events.out.tfevents.", 0), 0u);
    const auto messages = unframed(read_whole_file(entry.path()));
    counts.push_back(messages.size());
    EXPECT_NE(messages.at(0).find("brain.Event:2"), std::string::npos);
  }
  std::sort(counts.begin(), counts.end());
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 962}));
}

TEST(TensorboardEvents, LongTextsAndManyDigitsKeepTheirLengths) {
  std::string message;
  encode_text(message, 1, 1, "options", std::string(100'000, 'x'));
  EXPECT_EQ(unframed([&] {
              std::string out;
              append_tfrecord(out, message);
              return out;
            }()),
            std::vector<std::string>{message});
  EXPECT_GT(message.size(), 100'000u);
}

}  // namespace
}  // namespace tutti::trainer
