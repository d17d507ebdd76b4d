// The flight recorder, what a failure says of it, and the trace file of several ranks.
#include <gtest/gtest.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/trace.h>
#include <tutti/tests/comm/collectives_fixture.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using tutti::test::run_ranks_to_failure;

TraceEvent event_of(std::uint64_t seq) {
  TraceEvent event{.operation = {.seq = seq, .count = 10, .op = OpKind::AllReduce, .dtype = DType::Float32},
                   .bytes = 40,
                   .start = TraceClock::time_point(milliseconds(seq)),
                   .algorithm = "ring"};
  return event;
}

std::uint64_t begin(FlightRecorder& recorder, const TraceEvent& event) {
  return recorder.begin({event.operation, event.bytes, event.algorithm}, event.start);
}

void end(FlightRecorder& recorder, std::uint64_t ticket, const TraceEvent& event, TraceEvent::State state) {
  recorder.end(ticket, {event.operation, event.bytes, event.algorithm}, event.start, state);
}

TEST(FlightRecorder, KeepsTheLatestOldestFirst) {
  FlightRecorder recorder("world", nullptr);
  EXPECT_TRUE(recorder.latest().empty());
  for (std::uint64_t seq = 1; seq <= 200; ++seq) {
    const TraceEvent event = event_of(seq);
    const auto ticket = begin(recorder, event);
    if (seq % 2 == 0) end(recorder, ticket, event, TraceEvent::State::Done);
  }
  const auto latest = recorder.latest();
  ASSERT_EQ(latest.size(), FlightRecorder::kEvents);
  for (std::size_t i = 0; i < latest.size(); ++i) {
    const std::uint64_t seq = 200 - FlightRecorder::kEvents + 1 + i;
    EXPECT_EQ(latest[i].operation.seq, seq);
    EXPECT_EQ(latest[i].state, seq % 2 == 0 ? TraceEvent::State::Done : TraceEvent::State::Running);
  }
  ASSERT_EQ(recorder.latest(2).size(), 2u);
  EXPECT_EQ(recorder.latest(2)[1].operation.seq, 200u);
}

TEST(FlightRecorder, SaysWhatAnOperationWasAndHowLongItTook) {
  const auto at = [](int ms) { return TraceClock::time_point(milliseconds(ms)); };
  TraceEvent event = event_of(17);
  EXPECT_EQ(event.to_string(at(20)), "all_reduce seq 17 (sum float32 x 10) by ring: running for 3.000 ms");
  event.end = at(18);
  event.state = TraceEvent::State::Done;
  EXPECT_EQ(event.to_string(at(0)), "all_reduce seq 17 (sum float32 x 10) by ring: 1.000 ms");
  event.end = at(3117);
  event.state = TraceEvent::State::Failed;
  EXPECT_EQ(event.to_string(at(0)), "all_reduce seq 17 (sum float32 x 10) by ring: failed after 3.1 s");
}

TEST(FlightRecorder, WhatNeverWaitedIsNotTimed) {
  FlightRecorder recorder("world", nullptr);
  TraceEvent event = event_of(1);
  event.start = TraceEvent::kNotTimed;
  const auto text = [&] { return recorder.latest().back().to_string(TraceClock::now()); };
  const auto quick = begin(recorder, event);
  EXPECT_EQ(text(), "all_reduce seq 1 (sum float32 x 10) by ring: running");
  end(recorder, quick, event, TraceEvent::State::Done);
  EXPECT_EQ(text(), "all_reduce seq 1 (sum float32 x 10) by ring: at once");
  const auto broken = begin(recorder, event);
  end(recorder, broken, event, TraceEvent::State::Failed);
  EXPECT_EQ(text(), "all_reduce seq 1 (sum float32 x 10) by ring: failed at once");
}

TEST(FlightRecorder, WhatWaitsIsTimedFromThenOn) {
  FlightRecorder recorder("world", nullptr);
  TraceEvent event = event_of(1);
  event.start = TraceEvent::kNotTimed;
  const auto ticket = begin(recorder, event);
  event.start = TraceClock::now();
  recorder.waits(ticket, {event.operation, event.bytes, event.algorithm}, event.start);
  EXPECT_EQ(recorder.latest().back().start, event.start);
  EXPECT_EQ(recorder.latest().back().to_string(event.start + milliseconds(2)),
            "all_reduce seq 1 (sum float32 x 10) by ring: running for 2.000 ms");
  end(recorder, ticket, event, TraceEvent::State::Done);
  EXPECT_GE(recorder.latest().back().end, event.start);
}

/// A short operation looks at the clock when it has to wait, and says since when.
TEST(FlightRecorder, AShortOperationThatWaitsSaysForHowLong) {
  for (const tutti::test::Net net : {tutti::test::Net::Inproc, tutti::test::Net::Tcp, tutti::test::Net::Shm}) {
    std::string while_waiting;
    std::atomic<bool> seen{false};
    const auto body = [&](ProcessGroup& group) {
      float value = 1;
      if (group.rank() == 1) {
        std::thread other([&] {
          do while_waiting = group.recent_operations();
          while (while_waiting.find("running for ") == std::string::npos);
          seen = true;
        });
        group.all_reduce(std::span(&value, 1));
        other.join();
      } else {
        while (!seen) std::this_thread::yield();
        group.all_reduce(std::span(&value, 1));
      }
      EXPECT_EQ(value, 2);
    };
    tutti::test::run_ranks(net, 2, body);
    test::expect_parts(while_waiting, {"all_reduce seq 1 (sum float32 x 1) by "});
  }
}

TEST(FlightRecorder, AnOperationThatOutlastsTheRingIsNotMistakenForAnother) {
  const auto log = std::make_shared<TraceLog>();
  FlightRecorder recorder("world", log);
  const auto slow = begin(recorder, event_of(1));
  for (std::uint64_t seq = 2; seq <= 1 + FlightRecorder::kEvents; ++seq) begin(recorder, event_of(seq));
  end(recorder, slow, event_of(1), TraceEvent::State::Failed);
  for (const TraceEvent& event : recorder.latest()) EXPECT_EQ(event.state, TraceEvent::State::Running);
  ASSERT_EQ(log->snapshot().entries.size(), 1u);
  EXPECT_EQ(log->snapshot().entries[0].event.state, TraceEvent::State::Failed);
}

/// An event whose parts all say which one it is.
TraceEvent telling_event(std::uint64_t number, OpKind op) {
  static constexpr const char* kNames[] = {"ring", "recursive_doubling"};
  TraceEvent event = event_of(number);
  event.operation.op = op;
  event.operation.count = event.bytes = number;
  event.operation.root = static_cast<int>(number);
  event.algorithm = kNames[number % 2];
  return event;
}

void expect_whole(const TraceEvent& event) {
  const TraceEvent expected = telling_event(event.operation.seq, event.operation.op);
  EXPECT_EQ(event.operation.to_string(), expected.operation.to_string());
  EXPECT_EQ(event.bytes, expected.bytes);
  EXPECT_EQ(event.start, expected.start);
  EXPECT_STREQ(event.algorithm, expected.algorithm);
  if (event.state == TraceEvent::State::Done) {
    EXPECT_GT(event.end, expected.start);
  }
}

TEST(FlightRecorder, WhoLooksSeesWholeEventsOnlyWhileCollectivesAndMessagesGoOn) {
  const auto log = std::make_shared<TraceLog>();
  FlightRecorder recorder("world", log);
  std::atomic<int> at_work{2};
  const auto work = [&](OpKind op) {
    for (std::uint64_t number = 1; number <= 20'000; ++number) {
      const TraceEvent event = telling_event(number, op);
      end(recorder, begin(recorder, event), event, TraceEvent::State::Done);
    }
    --at_work;
  };
  std::thread collectives(work, OpKind::AllReduce), messages(work, OpKind::Send);
  while (at_work > 0) {
    const auto latest = recorder.latest();
    EXPECT_LE(latest.size(), FlightRecorder::kEvents);
    for (const TraceEvent& event : latest) expect_whole(event);
  }
  collectives.join();
  messages.join();
  EXPECT_EQ(log->snapshot().entries.size(), 40'000u);
}

TEST(FlightRecorder, CollectivesAndMessagesAreToldInTheOrderOfTheirStarts) {
  FlightRecorder recorder("world", nullptr);
  for (std::uint64_t number = 1; number <= 100; ++number) {
    const TraceEvent event = telling_event(number, number % 3 == 0 ? OpKind::Recv : OpKind::AllReduce);
    end(recorder, begin(recorder, event), event, TraceEvent::State::Done);
  }
  const auto latest = recorder.latest(10);
  ASSERT_EQ(latest.size(), 10u);
  for (std::size_t i = 0; i < latest.size(); ++i) {
    EXPECT_EQ(latest[i].operation.seq, 91 + i);
    EXPECT_EQ(latest[i].is_message(), (91 + i) % 3 == 0);
  }
}

class TraceFile : public testing::Test {
 protected:
  std::string path() const { return folder_.file("trace.json"); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  RunRanksOptions options(Net net) const {
    RunRanksOptions options{.net = net};
    options.group.trace_file = path();
    return options;
  }

  test::TemporaryFolder folder_;
};

json read_json(const std::string& path) {
  std::ifstream in(path);
  return json::parse(in);
}

class TraceFiles : public TraceFile, public testing::WithParamInterface<Net> {};

TEST_P(TraceFiles, HoldAllRanksWithTheSameOperationsInTheSameOrder) {
  constexpr int kWorld = 3;
  run_ranks(
      kWorld,
      [](ProcessGroup& world) {
        std::vector<float> data(1000);
        world.barrier();
        for (int i = 0; i < 5; ++i) world.all_reduce(std::span<float>(data));
        world.broadcast_async(buffer(std::span(data)), 1).wait();
        const auto pair = world.split(world.rank() == 2 ? -1 : 0);
        if (pair) pair->all_reduce(std::span<float>(data), ReduceOp::Max);
        if (world.rank() == 0) world.send(std::span<float>(data), 2, 77);
        if (world.rank() == 2) world.recv(std::span<float>(data), 0, 77);
      },
      options(GetParam()));
  ASSERT_EQ(files(), std::vector<std::string>{"trace.json"});
  const json trace = read_json(path());
  EXPECT_EQ(trace["otherData"]["ranks"], kWorld);

  std::map<int, std::vector<json>> operations;                                  // of the world, by rank
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> lanes;  // begin and end, by rank and tid
  std::set<int> named;
  int messages = 0, of_the_pair = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") named.insert(event["pid"].get<int>());
    if (event["name"] == "clock") {
      EXPECT_LT(event["args"]["uncertainty_us"].get<double>(), 1e6);
    }
    if (event["ph"] != "X") continue;
    const int rank = event["pid"];
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    EXPECT_GE(begin, -0.001);
    EXPECT_GE(end, begin);
    EXPECT_EQ(event["args"]["state"], "done");
    lanes[{rank, event["tid"].get<int>()}].push_back({begin, end});
    if (event["cat"] == "message") {
      ++messages;
      EXPECT_EQ(event["args"]["tag"], 77);
      EXPECT_EQ(event["args"]["bytes"], 4000);
    } else if (event["args"]["group"] == "world") {
      operations[rank].push_back(event);
    } else {
      ++of_the_pair;
      EXPECT_EQ(event["args"]["group"], "world/split1/0");
    }
  }
  EXPECT_EQ(named, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(messages, 2);
  EXPECT_EQ(of_the_pair, 4);  // the all_reduce and the goodbye of two ranks

  const std::vector<std::string> expected = {"barrier",    "all_reduce", "all_reduce", "all_reduce",
                                             "all_reduce", "all_reduce", "broadcast",  "split"};
  for (int rank = 0; rank < kWorld; ++rank) {
    ASSERT_EQ(operations[rank].size(), expected.size()) << "rank " << rank;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const json& event = operations[rank][i];
      EXPECT_EQ(event["name"], expected[i]);
      EXPECT_EQ(event["args"]["seq"], i + 1);
      EXPECT_NE(event["args"]["algorithm"], "");
      EXPECT_EQ(event["args"]["operation"], operations[0][i]["args"]["operation"]);
    }
  }
  for (auto& [lane, times] : lanes)
    for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i].first, times[i - 1].second - 0.001);
  // Nobody leaves a barrier before everybody has come, so on aligned clocks all ranks overlap in it (threads share one
  // clock; how far it is measured wrong, the uncertainty says).
  double last_begin = 0, first_end = 1e18, uncertainty = 0;
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "clock") uncertainty = std::max(uncertainty, event["args"]["uncertainty_us"].get<double>());
  for (int rank = 0; rank < kWorld; ++rank) {
    const json& barrier = operations[rank][0];
    last_begin = std::max(last_begin, barrier["ts"].get<double>());
    first_end = std::min(first_end, barrier["ts"].get<double>() + barrier["dur"].get<double>());
  }
  EXPECT_LE(last_begin, first_end + 2 * uncertainty + 1);
}

TEST_P(TraceFiles, OfAFailedGroupAreLeftByEachRankForItself) {
  test::CapturedLog log;
  run_ranks_to_failure(
      2,
      [](ProcessGroup& group) {
        group.barrier();
        if (group.rank() == 1) group.abort("enough");
        for (;;) group.barrier();
      },
      options(GetParam()));
  ASSERT_EQ(files(), (std::vector<std::string>{"trace.json.rank0", "trace.json.rank1"}));
  for (const int rank : {0, 1}) {
    const json trace = read_json(path() + ".rank" + std::to_string(rank));
    std::vector<std::string> names;
    for (const json& event : trace["traceEvents"])
      if (event["ph"] == "X") names.push_back(event["name"]);
    EXPECT_FALSE(names.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, TraceFiles, testing::Values(Net::Inproc, Net::Tcp, Net::Shm),
                         testing::PrintToStringParamName());

TEST_F(TraceFile, OfAWorldOfOneIsWrittenWithoutShutdownAndByTheEnvironmentToo) {
  for (const bool by_option : {true, false}) {
    if (!by_option) ::setenv("TUTTI_TRACE", path().c_str(), 1);
    const auto group = ProcessGroup::connect(World{}, {.trace_file = by_option ? path() : ""});
    ::unsetenv("TUTTI_TRACE");
    group->barrier();
    if (!by_option) group->shutdown();
  }
  EXPECT_EQ(files(), std::vector<std::string>{"trace.json"});
  EXPECT_NO_THROW(read_json(path()));
}

TEST_F(TraceFile, ThatCannotBeWrittenIsRefusedAtOnce) {
  const std::string nowhere = folder_.file("missing/trace.json");
  const auto connect = [&] { ProcessGroup::connect(World{}, {.trace_file = nowhere}); };
  test::expect_error(ErrorCode::System, {"cannot write the trace file '" + nowhere + "': No such file"}, connect);
  EXPECT_TRUE(files().empty());
}

TEST(FailureText, NamesTheOperationsBeforeTheFailure) {
  test::CapturedLog log;
  const auto outcomes = run_ranks_to_failure(2, [](ProcessGroup& group) {
    std::vector<float> data(7);
    group.barrier();
    group.all_reduce(std::span<float>(data));
    if (group.rank() == 1) data.pop_back();
    group.all_reduce(std::span<float>(data));
  });
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value());
    test::expect_parts(outcome->what(), {"(before: barrier seq 1, all_reduce seq 2 (sum float32 x 7))"});
  }
  for (const char* part : {"latest operations, oldest first: barrier seq 1", "all_reduce seq 3 (sum float32 x ",
                           ": failed after ", "all_reduce seq 2 (sum float32 x 7) by recursive_doubling: "})
    test::expect_parts(log.quiet_lines(), {part});
}

}  // namespace
}  // namespace tutti::comm
