// Strangers at every port of a running job, the store's and the ranks': they are shut out and logged, and the loop goes
// on.
#include <gtest/gtest.h>
#include <tutti/comm/wire/handshake.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "fault_job.h"

namespace tutti::comm {
namespace {

using namespace test;

/// A port of the job, and who may come to it.
struct Port {
  std::string name;
  std::uint16_t number = 0;
  PeerIdentity welcome;
  std::function<void(const std::string&)> wait_for_log;
};

class Ports : public testing::Test {
 protected:
  Ports() : job_(3, kLong, {"loop", "all_reduce"}) { job_.wait_for_all("beat 1\n"); }

  std::vector<Port> ports() {
    Processes& processes = job_.processes();
    const std::uint64_t id = identity_hash(processes.job_id());
    std::vector<Port> all = {{.name = "store",
                              .number = processes.store_port(),
                              .welcome = {.kind = ConnectionKind::Store, .world_size = 3, .job = id},
                              .wait_for_log = [this](const std::string& part) { store_log_.wait_for(part); }}};
    for (int rank = 0; rank < 3; ++rank) {
      const std::string address = job_.address(rank);
      all.push_back({.name = "rank " + std::to_string(rank),
                     .number = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))),
                     // Nobody uses the lane of messages in this job, so that a guest on it disturbs nobody.
                     .welcome = {.kind = ConnectionKind::Messages,
                                 .rank = (rank + 1) % 3,
                                 .world_size = 3,
                                 .job = id,
                                 .group = identity_hash("world")},
                     .wait_for_log = [this, rank](const std::string& part) {
                       EXPECT_TRUE(job_.processes().wait_for_error(rank, part))
                           << "\"" << part << "\" is not in: " << job_.processes().err(rank);
                     }});
    }
    return all;
  }

  const std::string& secret() { return job_.processes().job_secret(); }

  /// Shakes hands with the job's secret; what the verdict says.
  std::string verdict_on(const Port& port, const PeerIdentity& who) {
    RawConnection connection(port.number);
    const std::string verdict = shake_hands(connection, who, secret());
    EXPECT_TRUE(connection.closed_by_peer());
    return verdict;
  }

  void expect_the_loop_goes_on() {
    for (int rank = 0; rank < 3; ++rank) job_.wait_for_more_beats(rank);
  }

  CapturedLog store_log_;  // the store server runs in this process
  Job job_;
};

TEST_F(Ports, GarbageIsQuotedInTheLog) {
  for (const Port& port : ports()) {
    SCOPED_TRACE(port.name);
    RawConnection browser(port.number);
    browser.send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(browser.closed_by_peer());
    port.wait_for_log("47 45 54 20");
    // A hello's beginning, and then lengths of all ones: nothing of it is taken for a length.
    RawConnection oversized(port.number);
    oversized.send(std::string("\x89TUTTH\r\n\x01\x00", 10) + std::string(500, '\xff'));
    EXPECT_TRUE(oversized.closed_by_peer());
    port.wait_for_log("malformed");
  }
  expect_the_loop_goes_on();
}

TEST_F(Ports, WrongSecretJobAndWorldSizeAreRefusedAndNamed) {
  for (const Port& port : ports()) {
    SCOPED_TRACE(port.name);
    const ClientHandshake guesser(port.welcome, "guessed");
    RawConnection connection(port.number);
    connection.send(text(guesser.hello()));
    const auto challenge = bytes<kChallengeBytes>(connection.receive(kChallengeBytes));
    EXPECT_THROW(guesser.answer(challenge), Error);
    connection.send(std::string(kProofBytes, 'p'));
    const auto verdict = bytes<kVerdictBytes>(connection.receive(kVerdictBytes));
    const std::string refusal = text_of(ErrorCode::Unauthorized, [&] { guesser.finish(verdict); });
    EXPECT_EQ(refusal.find("world"), std::string::npos) << "a stranger is told nothing: " << refusal;
    EXPECT_TRUE(connection.closed_by_peer());
    port.wait_for_log("has another job secret");

    PeerIdentity other_job = port.welcome, other_world = port.welcome;
    other_job.job += 1;
    other_world.world_size = 4;
    expect_contains(verdict_on(port, other_job), "another job's process came to this port");
    expect_contains(verdict_on(port, other_world), "world size 3 here, 4 at ");
  }
  expect_the_loop_goes_on();
}

TEST_F(Ports, ARecordedHandshakeCannotBeReplayed) {
  for (const Port& port : ports()) {
    SCOPED_TRACE(port.name);
    expect_contains(replay_handshake(port.number, port.welcome, secret()), "another job secret");
  }
  expect_the_loop_goes_on();
}

}  // namespace
}  // namespace tutti::comm
