// What ranks must be started with alike: one rank that differs in anything is named by all, before a byte is reduced.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/process_group_impl.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/tests/support/run_ranks.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using std::chrono::seconds;

/// One other value for each setting that settings_to_agree() lists.
std::map<std::string, ProcessGroupOptions> other_values(const ProcessGroupOptions& usual) {
  std::map<std::string, ProcessGroupOptions> others;
  const auto add = [&](const std::string& name, const auto& change) {
    ProcessGroupOptions options = usual;
    change(options);
    others[name] = options;
  };
  add("algorithm (TUTTI_ALGO)", [](auto& options) { options.algorithm = "binomial"; });
  add("transport (TUTTI_TRANSPORT)",
      [](auto& options) { options.transport = options.transport == "tcp" ? "shm" : "tcp"; });
  add("segment_bytes", [](auto& options) { options.segment_bytes = 4096; });
  add("reproducible", [](auto& options) { options.reproducible = true; });
  add("encrypt (TUTTI_ENCRYPT)", [](auto& options) { options.encrypt = true; });
  add("trace (TUTTI_TRACE)", [](auto& options) { options.trace_file = "/dev/null"; });
  return others;
}

/// Threads that connect as processes do, each with its own options. Returns what each ended with; "" is success.
std::vector<std::string> connect_all(const std::vector<ProcessGroupOptions>& options) {
  const TcpStoreServer server(test::server_options());
  const int size = static_cast<int>(options.size());
  const auto outcomes = test::run_threads_to_failure(size, [&](int rank) {
    const World place = test::place_at(server, rank, size);
    const auto group = ProcessGroup::connect(place, options[static_cast<std::size_t>(rank)]);
    if (group->world_size() > 1) group->split(0)->barrier();
    group->shutdown();
  });
  std::vector<std::string> texts;
  for (const auto& outcome : outcomes) texts.push_back(outcome ? outcome->what() : "");
  return texts;
}

/// Without "rank r/n: ", which each rank says of itself.
std::string shared_part(const std::string& text) { return text.substr(std::min(text.find("group '"), text.size())); }

class DifferentSettings : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(DifferentSettings, AreNamedByAllRanksAndNoGroupForms) {
  const auto& [world_size, transport] = GetParam();
  ProcessGroupOptions usual;
  usual.timeout = seconds(20);
  usual.transport = transport;
  const auto others = other_values(usual);
  const Settings listed = settings_to_agree(usual);
  for (const Setting& setting : listed) {
    if (setting.name == "wire version") continue;  // one program has one
    SCOPED_TRACE(setting.name);
    ASSERT_TRUE(others.contains(setting.name)) << "add another value of it to this test";
    for (int odd = 0; odd < world_size; odd += std::max(1, world_size - 1)) {
      std::vector<ProcessGroupOptions> options(static_cast<std::size_t>(world_size), usual);
      options[static_cast<std::size_t>(odd)] = others.at(setting.name);
      const std::vector<std::string> texts = connect_all(options);
      for (const std::string& text : texts) {
        test::expect_parts(text, {": its ranks were started differently: " + setting.name + " is ",
                                  " on rank " + std::to_string(odd) + " ("});
        EXPECT_EQ(shared_part(text), shared_part(texts[0]));
      }
    }
  }
  EXPECT_EQ(others.size() + 1, listed.size());
}

INSTANTIATE_TEST_SUITE_P(Worlds, DifferentSettings,
                         testing::Combine(testing::Values(2, 3, 4), testing::Values("tcp", "shm")),
                         [](const auto& one) {
                           return std::to_string(std::get<0>(one.param)) + "_" + std::get<1>(one.param);
                         });

TEST(Settings, OfOneRankAreItsOwn) {
  ProcessGroupOptions options;
  options.timeout = seconds(20);
  for (const std::string& text : connect_all(std::vector(3, options))) EXPECT_EQ(text, "");
  std::vector<ProcessGroupOptions> own(3, options);
  own[1].timeout = seconds(30);
  own[2].report_after = seconds(1);
  own[2].bind_address = "127.0.0.1";
  for (const std::string& text : connect_all(own)) EXPECT_EQ(text, "");
}

TEST(Settings, AreReadAsTheyWereWritten) {
  const Settings written{{"a", "1"}, {"b (TUTTI_B)", ""}, {"c", "x=y z"}};
  EXPECT_EQ(settings_from(to_text(written)), written);
  EXPECT_EQ(to_text({{"a\tb", "c\nd"}}), "a?b=c?d");
}

TEST(Settings, AreComparedByNameWhateverTheirPlace) {
  const std::vector<std::string> ranks{"a, pid 1", "b, pid 2", "c, pid 3"};
  const Settings one{{"x", "1"}, {"y", "2"}}, turned{{"y", "2"}, {"x", "1"}},
      longer{{"x", "1"}, {"z", "3"}, {"y", "5"}};
  EXPECT_EQ(difference(std::vector{one, turned, one}, ranks), "");
  EXPECT_EQ(difference(std::vector{one, one, longer}, ranks),
            "y is 2 on ranks 0 (a, pid 1), 1 (b, pid 2), 5 on rank 2 (c, pid 3); "
            "z is 3 on rank 2 (c, pid 3), unknown on ranks 0 (a, pid 1), 1 (b, pid 2)");
}

}  // namespace
}  // namespace tutti::comm
