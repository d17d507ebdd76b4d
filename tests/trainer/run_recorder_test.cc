#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/run_data.h>
#include <tutti/trainer/report/run_recorder.h>
#include <tutti/trainer/report/step_records.h>
#include <tutti/trainer/report/tensorboard_events.h>

#include <cstring>
#include <sstream>
#include <thread>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

void run_steps(RunRecorder& recorder, std::int64_t begin, std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) {
    recorder.step({.epoch = 1, .step = step, .steps_per_epoch = end, .global_step = step, .loss = 0.5, .samples = 8});
  }
}

std::size_t files_in(const fs::path& folder) {
  return fs::exists(folder) ? static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})) : 0;
}

RecorderOptions options_in(const fs::path& run_dir, int rank, int world_size) {
  return {.run_dir = run_dir, .rank = rank, .world_size = world_size, .options = {{"lr", "0.1"}, {"model", "mlp"}}};
}

TEST(RunRecorder, WithoutAFolderNothingHappens) {
  RunRecorder recorder(RecorderOptions{});
  recorder.start(0);
  run_steps(recorder, 0, 10);
  recorder.epoch({});
  recorder.log().line("nobody reads this");
}

TEST(RunRecorder, LeavesRecordsEventsOptionsAndLog) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1}) {
    RunRecorder recorder(options_in(folder.path(), rank, 2));
    recorder.start(0);
    run_steps(recorder, 0, 250);
    const BucketTiming bucket{.nbytes = 159040, .start_seconds = 1.5e-5, .wait_seconds = 0};
    recorder.epoch({.epoch = 1, .train_loss = 0.5, .test_loss = 0.4, .test_accuracy = 0.9, .seconds = 1},
                   std::span(&bucket, 1));
    EXPECT_EQ(read_steps(steps_file(folder.path(), rank)).records.size(), 250u);  // flushed by epoch()
    recorder.log().line("first\n\nsecond");
  }
  EXPECT_EQ(read_option_texts(folder / "options.json"), (OptionTexts{{"lr", "0.1"}, {"model", "mlp"}}));
  const OptionTexts origin = read_option_texts(folder / "run.json");
  EXPECT_EQ(origin.at("host"), comm::host_name());
  EXPECT_EQ(origin.at("started").size(), std::string("2026-03-01 12:00:00").size());
  test::expect_parts(origin.at("command"), {"tutti_trainer_tests"});
  EXPECT_GE(std::stoi(origin.at("cpus")), 1);
  for (const char* key : {"version", "cpu"}) EXPECT_TRUE(origin.contains(key)) << key;
  EXPECT_EQ(read_whole_file(folder / "buckets.json"),
            "[{\"bytes\":159040,\"start_seconds\":1.5e-05,\"wait_seconds\":0.0}]\n");
  EXPECT_EQ(files_in(folder / "tensorboard/rank-0"), 1u);
  EXPECT_EQ(files_in(folder / "tensorboard/rank-1"), 1u);
  const std::string log = read_whole_file(folder / "log.txt");
  test::expect_parts(log, {" rank 0: first\n", " rank 0: second\n", " rank 1: first\n"});
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4);
}

TEST(RunRecorder, ResumingWithFewerRanksDropsWhatIsRepeatedEverywhere) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1, 2}) {
    RunRecorder recorder(options_in(folder.path(), rank, 3));
    recorder.start(0);
    run_steps(recorder, 0, 30);
  }
  RunRecorder(options_in(folder.path(), 0, 1)).start(20);
  for (const int rank : {0, 2}) EXPECT_EQ(read_steps(steps_file(folder.path(), rank)).records.size(), 20u) << rank;
  EXPECT_EQ(files_in(folder / "tensorboard/rank-0"), 2u);
  EXPECT_EQ(files_in(folder / "tensorboard/rank-2"), 1u);

  RunRecorder(options_in(folder.path(), 0, 1)).start(0);  // from the beginning: nothing of the earlier runs holds
  EXPECT_EQ(ranks_with_steps(folder.path()), std::vector<int>{0});
  EXPECT_EQ(files_in(folder / "tensorboard"), 1u);
  EXPECT_EQ(files_in(folder / "tensorboard/rank-0"), 1u);
}

TEST(RunRecorder, TrainingOutlivesAFullDisk) {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  RecorderOptions options = options_in(folder.path(), 1, 2);
  options.warn = [&](const std::string& sentence) { warnings.push_back(sentence); };
  RunRecorder recorder(std::move(options));
  recorder.start(0);
  // Files may not grow past 100 KB: the nearest to a full disk that needs no privileges.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto former = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  run_steps(recorder, 0, 5000);
  recorder.epoch({});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, former);
  ASSERT_EQ(warnings.size(), 1u);
  test::expect_parts(warnings[0], {"rank 1 stops recording its steps, the training goes on: cannot write " +
                                   (folder / "steps-rank-1.jsonl").string()});
  EXPECT_GT(read_steps(folder / "steps-rank-1.jsonl").records.size(), 500u);
}

TEST(RunRecorder, AFolderThatCannotBeWrittenIsNamedAtTheStart) {
  const TemporaryFolder folder;
  replace_file(folder / "file", "");
  RunRecorder recorder(options_in(folder / "file", 0, 1));
  test::expect_parts(error_of([&] { recorder.start(0); }), {(folder / "file").string()});
}

TEST(RunLog, LinesOfManyRanksStayWhole) {
  const TemporaryFolder folder;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&folder, rank] {
      RunLog log(folder.path(), rank);
      for (int i = 0; i < 200; ++i) log.line("line " + std::string(100, static_cast<char>('a' + rank)) + " end");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::istringstream lines(read_whole_file(folder / "log.txt"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(line.ends_with(" end")) << line;
    EXPECT_EQ(line.size(), std::string("2026-03-01 12:00:00.123 rank 0: line  end").size() + 100) << line;
  }
  EXPECT_EQ(count, 800);
}

TEST(RunOptions, HostileTextsStayInTheirCell) {
  const std::string table = option_texts_to_markdown({{"data", "<script>alert(1)</script> | `x`\nnext"}});
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  test::expect_absent(table, {"<script>"});
  test::expect_parts(option_texts_to_json({{"data", "\xff\xfe"}}), {"\"data\""});
}

std::string as_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
  }
  return text;
}

std::string framed(const std::string& message) { return as_hex(tfrecord(message)); }

/// The messages in the frames of `bytes`; fails on a wrong length or checksum.
std::vector<std::string> unframed(std::string bytes) {
  std::vector<std::string> messages;
  while (bytes.size() >= 16) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    if (length > bytes.size() - 16) break;
    messages.push_back(bytes.substr(12, length));
    const std::string again = tfrecord(messages.back());
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
  EXPECT_EQ(framed(encode_file_version(1700000000.25)),
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
  EXPECT_EQ(framed(encode_session_start(1700000000.25, 300)),
            "100000000000000095fbfe180900001040fc54d94110ac023a0208016b3b88f1");
  const Scalar scalars[] = {{"loss/step", 0.1}, {"learning_rate", 1e-3}};
  EXPECT_EQ(framed(encode_scalars(1700000001.5, 300, scalars)),
            "36000000000000004f578cef0900006040fc54d94110ac022a280a100a096c6f73732f7374657015cdcccc3d0a140a0d6c6561726e"
            "696e675f72617465156f12833a6e81fc37");
  EXPECT_EQ(framed(encode_text(2.0, 0, "options", "| a |")),
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
    test::expect_parts(messages.at(0), {"brain.Event:2"});
  }
  std::sort(counts.begin(), counts.end());
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 962}));
}

TEST(TensorboardEvents, LongTextsAndManyDigitsKeepTheirLengths) {
  const std::string message = encode_text(1, 1, "options", std::string(100'000, 'x'));
  EXPECT_EQ(unframed(tfrecord(message)), std::vector<std::string>{message});
  EXPECT_GT(message.size(), 100'000u);
}

}  // namespace
}  // namespace tutti::trainer
