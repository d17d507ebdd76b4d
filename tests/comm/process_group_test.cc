// The process group beside the results of its collectives, which conformance_test.cc has in all worlds; here they are
// checked with each algorithm as the group's own, and among ranks of several hosts.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/collectives_fixture.h>
#include <tutti/tests/support/run_ranks.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "conformance.h"

namespace tutti::comm {
namespace {

TEST_P(Collectives, OfEveryKindFromEveryRoot) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (const std::size_t count : counts()) {
          for (const OpKind kind : kOfAll) ExactCall(group, kind, {.count = count}).run();
          for (const OpKind kind : kRooted)
            for (int root = 0; root < world(); ++root) ExactCall(group, kind, {.count = count, .root = root}).run();
        }
      },
      options());
}

TEST_P(Collectives, BarrierLetsNobodyThroughEarly) {
  std::atomic<int> arrived{0};
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        for (int round = 1; round <= 20; ++round) {
          ++arrived;
          group.barrier();
          ASSERT_GE(arrived.load(), round * world());
          group.barrier();
        }
      },
      options());
}

TEST_P(Collectives, AsynchronousOnesRunInIssueOrder) {
  run_ranks(
      world(),
      [&](ProcessGroup& group) {
        std::vector<std::vector<float>> data;
        std::vector<Work> works;
        for (std::size_t i = 0; i < 8; ++i) data.push_back(input_of<float>(group.rank(), 2000 + i));
        for (auto& values : data) works.push_back(group.all_reduce_async(buffer(std::span(values))));
        std::vector<float> last = input_of<float>(group.rank(), 10);
        group.all_reduce(std::span<float>(last));  // synchronous, behind the queue
        for (Work& work : works) EXPECT_TRUE(work.is_completed());
        for (Work& work : works) work.wait();
        for (const auto& values : data)
          for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], reduced<float>(ReduceOp::Sum, world(), i));
      },
      options());
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(cases()), case_name);

TEST(ProcessGroup, EveryFunctionCallsItsCollective) {
  run_ranks(2, [](ProcessGroup& group) {
    float one[1] = {}, other[1] = {}, two[2] = {}, both[2] = {};
    double sum[1] = {};
    const Buffer o{one, 1, DType::Float32}, p{other, 1, DType::Float32}, t{two, 2, DType::Float32},
        b{both, 2, DType::Float32}, s{sum, 1, DType::Float64};
    const std::vector<std::size_t> counts{1, 1};
    const bool root = group.rank() == 0;
    const Buffer p_at_root = root ? p : Buffer{}, b_at_root = root ? b : Buffer{};
    std::vector<Work> works;
    const auto both_forms = [&](OpKind op, auto&& sync, auto&& async) {
      for (const bool started : {false, true}) {
        started ? works.emplace_back(async()).wait() : sync();
        const std::string done = group.recent_operations();
        const std::string last = done.substr(done.rfind('\n', done.size() - 2) + 1);
        EXPECT_TRUE(last.starts_with(std::string(name(op)) + " seq")) << name(op) << " was " << last;
      }
    };
#define TUTTI_BOTH(op, function, ...) \
  both_forms(                         \
      OpKind::op, [&] { group.function(__VA_ARGS__); }, [&] { return group.function##_async(__VA_ARGS__); })
    TUTTI_BOTH(Broadcast, broadcast, o, 0);
    TUTTI_BOTH(Reduce, reduce, o, p_at_root, ReduceOp::Max, 0);
    TUTTI_BOTH(AllReduce, all_reduce, o, ReduceOp::Max);
    TUTTI_BOTH(AllReduce, all_reduce_rounded, s, o);
    TUTTI_BOTH(Gather, gather, o, b_at_root, 0);
    TUTTI_BOTH(AllGather, all_gather, o, b);
    TUTTI_BOTH(Scatter, scatter, b_at_root, o, 0);
    TUTTI_BOTH(ReduceScatter, reduce_scatter, b, o);
    TUTTI_BOTH(AllToAll, all_to_all, t, b);
    TUTTI_BOTH(GatherV, gather_v, o, b_at_root, counts, 0);
    TUTTI_BOTH(ScatterV, scatter_v, b_at_root, o, counts, 0);
    TUTTI_BOTH(AllGatherV, all_gather_v, o, b, counts);
    TUTTI_BOTH(ReduceScatterV, reduce_scatter_v, b, o, counts);
    TUTTI_BOTH(AllToAllV, all_to_all_v, t, counts, b, counts);
    TUTTI_BOTH(Barrier, barrier);
#undef TUTTI_BOTH
    EXPECT_THROW(group.run({.op = OpKind::Shutdown}), Error);
  });
}

TEST(ProcessGroup, LargeAllReduceOverTcpKeepsBothDirectionsMoving) {
  run_ranks(2,
            [&](ProcessGroup& group) {
              std::vector<float> data(8 << 20, static_cast<float>(group.rank() + 1));
              for (int i = 0; i < 3; ++i) group.all_reduce(std::span<float>(data));
              EXPECT_EQ(data.front(), 12.0f);
              EXPECT_EQ(data.back(), 12.0f);
            },
            {.net = Net::Tcp});
}

TEST(ProcessGroup, RefusesWrongArgumentsBeforeSendingAnything) {
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<float> data(3);
    std::vector<std::int32_t> integers(3);
    const auto code_of = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(name(error.code())) + "|" + error.what();
      }
      return std::string("no error");
    };
    EXPECT_NE(code_of([&] { group.broadcast(std::span<float>(data), 2); }).find("invalid argument|rank"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.broadcast(std::span<float>(data), 2); }).find("root 2 is no rank of a world of 2"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.all_reduce(std::span<std::int32_t>(integers), ReduceOp::Avg); }).find("avg of int32"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.all_reduce(std::span<float>(data), ReduceOp::BXor); }).find("bxor of float32"),
              std::string::npos);
    bool flags[3] = {};
    EXPECT_NE(code_of([&] { group.all_reduce(std::span<bool>(flags), ReduceOp::Avg); }).find("avg of bool"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.all_reduce(Buffer{nullptr, 3, DType::Float32});
              }).find("null pointer"),
              std::string::npos);
    EXPECT_NE(code_of([&] { group.send(std::span<float>(data), 5); }).find("there is no rank 5"), std::string::npos);
    EXPECT_NE(code_of([&] {
                group.all_gather(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)));
              }).find("needed"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.all_to_all(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)));
              }).find("all_to_all: input holds 3 elements, which cannot be cut into 2 equal blocks"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.reduce_scatter(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)));
              }).find("reduce_scatter: input holds 3 elements, but 6 are needed"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                const Buffer empty{nullptr, 0, DType::Float16};
                group.reduce_scatter(empty, empty, ReduceOp::BAnd);
              }).find("band of float16"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.sendrecv(const_buffer(std::span<float>(data)), 2, buffer(std::span<float>(data)));
              }).find("there is no rank 2"),
              std::string::npos);
    const std::vector<std::size_t> three = {1, 1, 1}, huge = {3, std::size_t{1} << 40};
    EXPECT_NE(code_of([&] {
                group.all_gather_v(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)), three);
              }).find("all_gather_v: there are 3 counts, but 2 are needed"),
              std::string::npos);
    EXPECT_NE(code_of([&] {
                group.gather_v(const_buffer(std::span<float>(data)), buffer(std::span<float>(data)), huge, 0);
              }).find("gather_v: the counts add up to 2^40 elements or more"),
              std::string::npos);
    group.barrier();  // the group is unharmed
  });
}

TEST(ProcessGroup, RefusesBuffersThatCannotBe) {
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<double> memory(8);
    const auto part = [&](std::size_t first, std::size_t count) {
      return Buffer{memory.data() + first, count, DType::Float64};
    };
    const std::size_t rank = static_cast<std::size_t>(group.rank()), other = 1 - rank;
    const std::vector<std::size_t> twos = {2, 2};
    const Buffer wraps = part(0, std::size_t{1} << 61), wraps_twice = part(0, std::size_t{1} << 63);
    const std::string overlap = "share memory", overflow = "more than there is memory for";
    std::vector<std::pair<std::string, std::function<void()>>> calls = {
        {overflow, [&] { group.all_reduce(wraps); }},
        {overflow, [&] { group.broadcast(wraps, 0); }},
        {overflow,
         [&] {
           group.all_gather(wraps_twice, Buffer{nullptr, 0, DType::Float64});
         }},
        {overflow,
         [&] {
           group.reduce_scatter(Buffer{nullptr, 0, DType::Float64}, wraps_twice);
         }},
        {overflow, [&] { group.all_to_all(wraps, wraps); }},
        {overflow, [&] { group.send(wraps, 0); }},
        {overflow, [&] { group.recv(wraps, 0); }},
        {overlap, [&] { group.all_gather(part(2 * other, 2), part(0, 4)); }},
        {overlap, [&] { group.reduce_scatter(part(0, 4), part(1, 2)); }},
        {overlap, [&] { group.all_to_all(part(0, 4), part(3, 4)); }},
        {overlap, [&] { group.all_to_all(part(0, 4), part(0, 4)); }},
        {overlap, [&] { group.all_gather_v(part(2 * rank, 2), part(0, 4), twos); }},
        {overlap, [&] { group.all_to_all_v(part(0, 4), twos, part(0, 4), twos); }},
        {overlap,
         [&] {
           group.all_reduce_rounded(part(0, 4), Buffer{memory.data(), 4, DType::Float32});
         }},
        {overlap, [&] { group.sendrecv(part(0, 2), 0, part(1, 2), 0); }},
    };
    if (group.rank() == 0) {
      calls.push_back({overlap, [&] { group.reduce(part(0, 3), part(1, 3), ReduceOp::Sum, 0); }});
      calls.push_back({overlap, [&] { group.gather(part(0, 2), part(0, 4), 0); }});
      calls.push_back({overlap, [&] { group.scatter(part(0, 4), part(0, 2), 0); }});
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      try {
        calls[i].second();
        ADD_FAILURE() << "call " << i << " was not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_NE(std::string(error.what()).find(calls[i].first), std::string::npos) << i << ": " << error.what();
      }
    }
    group.barrier();  // the group is unharmed
  });
}

TEST(ProcessGroup, TwoRootsAreAnErrorAtTheNextOperationAtTheLatest) {
  for (const auto net : {Net::Tcp, Net::Shm}) {
    for (const int ranks : {2, 3}) {
      for (const OpKind op : {OpKind::Broadcast, OpKind::Reduce, OpKind::Gather, OpKind::Scatter}) {
        SCOPED_TRACE(std::string(name(op)));
        run_ranks(ranks,
                  [op](ProcessGroup& group) {
                    const int root = group.rank() == 0 ? 0 : 1;
                    const bool is_root = group.rank() == root;
                    std::vector<float> whole(static_cast<std::size_t>(group.world_size())), block(1);
                    const std::span<float> at_root = std::span(whole).first(is_root ? whole.size() : 0);
                    try {
                      if (op == OpKind::Broadcast) group.broadcast(std::span(block), root);
                      if (op == OpKind::Reduce)
                        group.reduce(std::span(block), std::span(whole).first(is_root ? 1 : 0), ReduceOp::Sum, root);
                      if (op == OpKind::Gather) group.gather(std::span(block), at_root, root);
                      if (op == OpKind::Scatter) group.scatter(at_root, std::span(block), root);
                      group.barrier();
                      ADD_FAILURE() << "rank " << group.rank() << " has noticed nothing";
                    } catch (const Error&) {
                    }
                  },
                  {.net = net});
      }
    }
  }
}

TEST(ProcessGroup, CallsAfterShutdownSaySo) {
  run_ranks(3,
            [&](ProcessGroup& group) {
              group.shutdown();
              try {
                group.barrier();
                FAIL() << "barrier after shutdown";
              } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::Aborted);
                EXPECT_NE(std::string(error.what()).find("has been shut down"), std::string::npos);
              }
            },
            {.net = Net::Tcp});
}

TEST(ProcessGroup, ACallThatIsRefusedTakesNoNumber) {
  run_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      group.use_algorithm("no such algorithm");
      EXPECT_THROW(group.barrier(), Error);
      group.use_algorithm("");
    }
    group.barrier();  // with the same number on both ranks
  });
}

/// Every way to issue an operation.
std::vector<std::pair<const char*, std::function<void(ProcessGroup&)>>> ways_to_issue() {
  static float value = 0, other = 0;
  const Buffer one = buffer(std::span(&value, 1)), two = buffer(std::span(&other, 1));
  static constexpr int kRanks[] = {0, 1};
  return {{"broadcast", [=](ProcessGroup& group) { group.broadcast(one, 0); }},
          {"all_reduce_async", [=](ProcessGroup& group) { group.all_reduce_async(one).wait(); }},
          {"barrier", [](ProcessGroup& group) { group.barrier(); }},
          {"send", [=](ProcessGroup& group) { group.send(one, 1); }},
          {"isend", [=](ProcessGroup& group) { group.isend(one, 1).wait(); }},
          {"recv", [=](ProcessGroup& group) { group.recv(one, 1); }},
          {"irecv", [=](ProcessGroup& group) { group.irecv(one, 1).wait(); }},
          {"sendrecv", [=](ProcessGroup& group) { group.sendrecv(one, 1, two, 1); }},
          {"split", [](ProcessGroup& group) { group.split(0); }},
          {"subgroup", [](ProcessGroup& group) { group.subgroup(kRanks); }},
          {"algorithm_for", [](ProcessGroup& group) { group.algorithm_for(OpKind::AllReduce, 1, DType::Float32); }},
          {"use_algorithm", [](ProcessGroup& group) { group.use_algorithm("ring"); }},
          {"shutdown", [](ProcessGroup& group) { group.shutdown(); }}};
}

TEST(ProcessGroup, ASecondThreadIsToldThatOneAtATimeIssuesOperations) {
  run_ranks(2, [](ProcessGroup& group) {
    std::promise<void> inside, tried;
    const UserOp held{.name = "held", .combine = [&](void* target, const void* incoming, std::size_t, DType) {
                        inside.set_value();  // by the one thread that reduces, at the root
                        tried.get_future().wait();
                        *static_cast<float*>(target) += *static_cast<const float*>(incoming);
                      }};
    std::thread second;
    if (group.rank() == 0)
      second = std::thread([&] {
        inside.get_future().wait();
        for (const auto& [name, issue] : ways_to_issue()) {
          try {
            issue(group);
            ADD_FAILURE() << name << " by two threads";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << name;
            EXPECT_NE(std::string(error.what()).find("another thread"), std::string::npos) << error.what();
          }
        }
        tried.set_value();
      });
    const float mine = static_cast<float>(group.rank() + 1);
    float sum = 0;
    group.reduce(std::span(&mine, 1), std::span(&sum, group.rank() == 0 ? 1 : 0), held, 0);
    if (group.rank() == 0) {
      second.join();
      EXPECT_EQ(sum, 3);
      std::thread([&] { group.barrier(); }).join();  // one after the other is right
    } else {
      group.barrier();
    }
  });
}

}  // namespace
}  // namespace tutti::comm
