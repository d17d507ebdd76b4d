// The process group beside the results of its collectives, which conformance_test.cc has in all worlds; here they are
// checked with each algorithm as the group's own, and among ranks of several hosts.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/collectives_fixture.h>
#include <tutti/tests/support/run_ranks.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "conformance.h"
#include "store_test_support.h"

namespace tutti::comm {
namespace {

using test::expect_error;
using test::text_of;

class NamedAlgorithms : public Collectives {};

TEST_P(NamedAlgorithms, DoCollectivesOfEveryKindFromEveryRoot) {
  run([&](ProcessGroup& group) {
    for (const std::size_t count : counts()) {
      for (const OpKind kind : kOfAll) ExactCall(group, kind, {.count = count}).run();
      for (const bool async : {false, true})
        for (const OpKind kind : {OpKind::AllGather, OpKind::ReduceScatter})
          ExactCall(group, kind, {.count = count, .async = async}).run_in_place();
      for (const OpKind kind : kRooted)
        for (int root = 0; root < world(); ++root) ExactCall(group, kind, {.count = count, .root = root}).run();
    }
  });
}

TEST_P(Collectives, BarrierLetsNobodyThroughEarly) {
  std::atomic<int> arrived{0};
  run([&](ProcessGroup& group) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      group.barrier();
      ASSERT_GE(arrived.load(), round * world());
      group.barrier();
    }
  });
}

TEST_P(Collectives, AsynchronousOnesRunInIssueOrder) {
  run([&](ProcessGroup& group) {
    std::vector<std::vector<float>> data;
    std::vector<Work> works;
    for (std::size_t i = 0; i < 8; ++i) data.push_back(input_of<float>(group.rank(), 2000 + i));
    for (auto& values : data) works.push_back(group.all_reduce_async(buffer(std::span(values))));
    std::vector<float> last = input_of<float>(group.rank(), 10);
    group.all_reduce(std::span<float>(last));  // synchronous, behind the queue
    for (Work& work : works) EXPECT_TRUE(work.is_completed());
    for (Work& work : works) work.wait();
    for (const auto& values : data)
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], reduced<float>(ReduceOp::Sum, world(), i));
  });
}

std::vector<Case> named_cases() {
  std::vector<Case> result = cases();
  std::erase_if(result, [](const Case& c) { return c.algorithm.empty() && c.net != Net::MixedTls; });
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(cases()), case_name);
INSTANTIATE_TEST_SUITE_P(All, NamedAlgorithms, testing::ValuesIn(named_cases()), case_name);

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
    const std::span<float> so(one), sp(root ? std::span(other) : std::span<float>()), st(two), sb(both);
    const std::span<float> sb_at_root = root ? sb : std::span<float>();
    const auto typed = [&](OpKind op, auto&& call) {
      both_forms(op, call, [&] {
        call();
        return Work();
      });
    };
    typed(OpKind::Broadcast, [&] { group.broadcast(so, 0); });
    typed(OpKind::Reduce, [&] { group.reduce(so, sp, ReduceOp::Max, 0); });
    typed(OpKind::AllReduce, [&] { group.all_reduce(so); });
    typed(OpKind::Gather, [&] { group.gather(so, sb_at_root, 0); });
    typed(OpKind::AllGather, [&] { group.all_gather(so, sb); });
    typed(OpKind::Scatter, [&] { group.scatter(sb_at_root, so, 0); });
    typed(OpKind::ReduceScatter, [&] { group.reduce_scatter(sb, so); });
    typed(OpKind::AllToAll, [&] { group.all_to_all(st, sb); });
    EXPECT_THROW(group.run({.op = OpKind::Shutdown}), Error);
  });
}

TEST(ProcessGroup, LargeAllReduceOverTcpKeepsBothDirectionsMoving) {
  run_ranks(Net::Tcp, 2, [&](ProcessGroup& group) {
    std::vector<float> data(8 << 20, static_cast<float>(group.rank() + 1));
    for (int i = 0; i < 3; ++i) group.all_reduce(std::span<float>(data));
    EXPECT_EQ(data.front(), 12.0f);
    EXPECT_EQ(data.back(), 12.0f);
  });
}

/// A call and what is said of it.
struct Refused {
  std::string said;
  std::function<void()> call;
};

/// All are InvalidArgument, and leave the group unharmed.
void expect_refused(ProcessGroup& group, const std::vector<Refused>& calls) {
  for (const Refused& refused : calls) expect_error(ErrorCode::InvalidArgument, {refused.said}, refused.call);
  group.barrier();
}

TEST(ProcessGroup, RefusesWrongArgumentsBeforeSendingAnything) {
  run_ranks(2, [&](ProcessGroup& group) {
    std::vector<float> floats(3);
    std::vector<std::int32_t> integers(3);
    bool flags[3] = {};
    const std::span<float> typed(floats);
    const Buffer data = buffer(typed), none{nullptr, 3, DType::Float32}, empty{nullptr, 0, DType::Float16};
    const std::vector<std::size_t> three = {1, 1, 1}, huge = {3, std::size_t{1} << 40};
    expect_refused(
        group,
        {{"root 2 is no rank of a world of 2", [&] { group.broadcast(typed, 2); }},
         {"avg of int32", [&] { group.all_reduce(std::span(integers), ReduceOp::Avg); }},
         {"bxor of float32", [&] { group.all_reduce(typed, ReduceOp::BXor); }},
         {"avg of bool", [&] { group.all_reduce(std::span<bool>(flags), ReduceOp::Avg); }},
         {"null pointer", [&] { group.all_reduce(none); }},
         {"there is no rank 5", [&] { group.send(typed, 5); }},
         {"needed", [&] { group.all_gather(data, data); }},
         {"all_to_all: input holds 3 elements, which cannot be cut into 2 equal blocks",
          [&] { group.all_to_all(data, data); }},
         {"reduce_scatter: input holds 3 elements, but 6 are needed", [&] { group.reduce_scatter(data, data); }},
         {"band of float16", [&] { group.reduce_scatter(empty, empty, ReduceOp::BAnd); }},
         {"there is no rank 2", [&] { group.sendrecv(data, 2, data); }},
         {"all_gather_v: there are 3 counts, but 2 are needed", [&] { group.all_gather_v(data, data, three); }},
         {"gather_v: the counts add up to 2^40 elements or more", [&] { group.gather_v(data, data, huge, 0); }}});
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
    const Buffer none{nullptr, 0, DType::Float64}, narrow{memory.data(), 4, DType::Float32};
    const std::string overlap = "share memory", overflow = "more than there is memory for";
    expect_refused(group, {{overflow, [&] { group.all_reduce(wraps); }},
                           {overflow, [&] { group.broadcast(wraps, 0); }},
                           {overflow, [&] { group.all_gather(wraps_twice, none); }},
                           {overflow, [&] { group.reduce_scatter(none, wraps_twice); }},
                           {overflow, [&] { group.all_to_all(wraps, wraps); }},
                           {overflow, [&] { group.send(wraps, 0); }},
                           {overflow, [&] { group.recv(wraps, 0); }},
                           {overlap, [&] { group.all_gather(part(2 * other, 2), part(0, 4)); }},
                           {overlap, [&] { group.reduce_scatter(part(0, 4), part(1, 2)); }},
                           {overlap, [&] { group.all_to_all(part(0, 4), part(3, 4)); }},
                           {overlap, [&] { group.all_to_all(part(0, 4), part(0, 4)); }},
                           {overlap, [&] { group.all_gather_v(part(2 * rank, 2), part(0, 4), twos); }},
                           {overlap, [&] { group.all_to_all_v(part(0, 4), twos, part(0, 4), twos); }},
                           {overlap, [&] { group.all_reduce_rounded(part(0, 4), narrow); }},
                           {overlap, [&] { group.sendrecv(part(0, 2), 0, part(1, 2), 0); }}});
    if (group.rank() == 0) {
      for (const auto& call : std::vector<std::function<void()>>{
               [&] { group.reduce(part(0, 3), part(1, 3), ReduceOp::Sum, 0); },
               [&] { group.gather(part(0, 2), part(0, 4), 0); }, [&] { group.scatter(part(0, 4), part(0, 2), 0); }})
        test::expect_error(ErrorCode::InvalidArgument, {overlap}, call);
    }
    group.barrier();  // the group is unharmed
  });
}

TEST(ProcessGroup, RefusesCountsOfAllToAllVThatCannotBeRight) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto call = [&](std::vector<std::size_t> send, std::vector<std::size_t> recv) {
      return [&group, send, recv] {
        std::vector<float> input(3), output(3);
        group.all_to_all_v(const_buffer(std::span(input)), send, buffer(std::span(output)), recv);
      };
    };
    const std::string prefix = "rank " + std::to_string(group.rank()) + "/2: all_to_all_v: ";
    std::vector<std::size_t> send{1, 1}, recv{1, 1};
    ++send[static_cast<std::size_t>(group.rank())];
    ++recv[static_cast<std::size_t>(1 - group.rank())];
    expect_refused(group, {{prefix + "there are 1 counts, but 2 are needed, one for each rank", call({3}, {1, 2})},
                           {prefix + "there are 1 counts, but 2 are needed, one for each rank", call({1, 2}, {3})},
                           {prefix + "input holds 3 elements, but 2 are needed", call({1, 1}, {1, 2})},
                           {prefix + "output holds 3 elements, but 2 are needed", call({1, 2}, {1, 1})},
                           {prefix + "this rank would send 2 elements to itself, but receive 1", call(send, recv)}});
  });
}

TEST(ProcessGroup, TwoRootsAreAnErrorAtTheNextOperationAtTheLatest) {
  for (const auto net : {Net::Tcp, Net::Shm}) {
    for (const int ranks : {2, 3}) {
      for (const OpKind op : {OpKind::Broadcast, OpKind::Reduce, OpKind::Gather, OpKind::Scatter}) {
        SCOPED_TRACE(std::string(name(op)));
        run_ranks(net, ranks, [op](ProcessGroup& group) {
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
        });
      }
    }
  }
}

TEST(ProcessGroup, CallsAfterShutdownSaySo) {
  run_ranks(Net::Tcp, 3, [&](ProcessGroup& group) {
    group.shutdown();
    test::expect_error(ErrorCode::Aborted, {"has been shut down"}, [&] { group.barrier(); });
  });
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
          SCOPED_TRACE(name);
          test::expect_error(ErrorCode::InvalidArgument, {"another thread"}, [&, &issue = issue] { issue(group); });
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
