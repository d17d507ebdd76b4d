// What the store tests share: a server with its clients, raw connections, captured log lines, forked children.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store_client.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/tests/support/expect_text.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace tutti::test {}

namespace tutti::comm::test {

using namespace tutti::test;  // within comm, test:: means that of tests/support, too

inline Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }
inline Deadline in_ms(int count) { return Deadline::after(std::chrono::milliseconds(count)); }
inline std::vector<std::string> keys(std::initializer_list<const char*> names) { return {names.begin(), names.end()}; }

inline TcpStoreServerOptions server_options() {
  TcpStoreServerOptions options;
  options.job_id = "test job";
  options.job_secret = "test secret";
  return options;
}

inline TcpStoreOptions client_options(std::uint16_t port, int rank = -1, int world_size = -1) {
  TcpStoreOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.job_id = "test job";
  options.job_secret = "test secret";
  options.rank = rank;
  options.world_size = world_size;
  return options;
}

/// For a thread that connects as a process of a launcher does; `server` has server_options().
inline World place_at(const TcpStoreServer& server, int rank, int world_size) {
  World place;
  place.rank = place.local_rank = rank;
  place.world_size = place.local_world_size = world_size;
  place.master_addr = "127.0.0.1";
  place.master_port = server.port();
  place.job_id = "test job";
  place.job_secret = "test secret";
  place.launcher_owns_store = true;
  return place;
}

/// "rank 3 of 4, local rank 1 of 2"
inline std::string place_of(const World& world) {
  return "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) + ", local rank " +
         std::to_string(world.local_rank) + " of " + std::to_string(world.local_world_size);
}

using Variables = std::map<std::string, std::string>;

/// One of these variables alone.
inline Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

/// Runs `action`, which must throw an Error of `code`, and returns its text.
inline std::string text_of(ErrorCode code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

/// `action` must throw an Error of `code` whose text has all of `parts`.
inline void expect_error(ErrorCode code, const std::vector<std::string>& parts, const std::function<void()>& action,
                         std::source_location where = std::source_location::current()) {
  expect_parts(text_of(code, action), parts, where);
}

/// What follows "first cause: " where a rank repeats another's, else all of it.
inline std::string first_cause(const std::string& text) {
  const auto at = text.find("first cause: ");
  return at == std::string::npos ? text : text.substr(at + 13);
}

/// Takes comm's log lines while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    set_log_sink([this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      (level <= LogLevel::Warn ? lines_ : quiet_lines_) += std::string(line) + "\n";
      changed_.notify_all();
    });
  }
  ~CapturedLog() { set_log_sink({}); }

  /// Waits for an error or a warning that contains `part`; returns all of these.
  std::string wait_for(const std::string& part) { return wait_in(lines_, part); }
  /// The same of the lines that are not shown by default.
  std::string wait_for_quiet(const std::string& part) { return wait_in(quiet_lines_, part); }
  /// The errors and warnings so far.
  std::string lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::string quiet_lines() {
    const std::lock_guard lock(mutex_);
    return quiet_lines_;
  }

 private:
  std::string wait_in(const std::string& lines, const std::string& part) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, soon().time_point(), [&] { return lines.find(part) != std::string::npos; });
    EXPECT_NE(lines.find(part), std::string::npos)
        << "\"" << part << "\" was not logged, but: " << lines_ << quiet_lines_;
    return lines;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string lines_;
  std::string quiet_lines_;
};

/// A connection that says whatever bytes a test wants.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port);
  /// Takes over a connection that has been opened and authenticated.
  explicit RawConnection(Socket socket) : socket_(std::move(socket)) {}

  void send(std::string_view bytes);
  /// Waits for exactly `count` bytes.
  std::string receive(std::size_t count);
  /// True if the other side closes within the tests' patience.
  bool closed_by_peer();
  void close() { socket_.close(); }

 private:
  Socket socket_;
};

/// A port of this host where connections are refused, as long as this lives: it is taken, and nobody listens.
class ClosedPort {
 public:
  ClosedPort();
  std::string endpoint() const { return local_endpoint(socket_.get()).text(); }

 private:
  Socket socket_;
};

std::size_t open_descriptors();

/// A folder of its own under the system's temporary one, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A forked process that runs `body` and ends with status 0, or 1 if it threw or an expectation failed. Killed and
/// reaped at the end.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is aborted leaves nothing running
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ~Child() { end(SIGKILL); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// The wait status, after `signal` if it is not 0.
  int end(int signal = 0) {
    if (pid_ < 0) return -1;
    int status = -1;
    if (signal != 0) ::kill(pid_, signal);
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// --- Handshakes on raw connections: each side's bytes as text, and a whole one --------------------------------------

template <std::size_t N>
std::string text(const std::array<std::byte, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

template <std::size_t N>
std::array<std::byte, N> bytes(const std::string& text) {
  std::array<std::byte, N> result;
  for (std::size_t i = 0; i < N; ++i) result[i] = static_cast<std::byte>(text[i]);
  return result;
}

/// Sends the hello and, whatever the challenge holds, the proof for it; returns what the verdict says, or "accepted".
inline std::string shake_hands(RawConnection& connection, const PeerIdentity& self, const std::string& secret) {
  const ClientHandshake handshake(self, secret);
  connection.send(text(handshake.hello()));
  connection.send(text(handshake.answer(bytes<kChallengeBytes>(connection.receive(kChallengeBytes)))));
  try {
    handshake.finish(bytes<kVerdictBytes>(connection.receive(kVerdictBytes)));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// Shakes hands, and sends the same bytes once more on a second connection, which must be refused as unauthorized: the
/// text of the refusal.
inline std::string replay_handshake(std::uint16_t port, const PeerIdentity& self, const std::string& secret) {
  const ClientHandshake recorded(self, secret);
  std::string proof;
  {
    RawConnection first(port);
    first.send(text(recorded.hello()));
    proof = text(recorded.answer(bytes<kChallengeBytes>(first.receive(kChallengeBytes))));
    first.send(proof);
    EXPECT_NO_THROW(recorded.finish(bytes<kVerdictBytes>(first.receive(kVerdictBytes))));
  }
  RawConnection replay(port);
  replay.send(text(recorded.hello()) + proof);
  replay.receive(kChallengeBytes);
  const auto verdict = bytes<kVerdictBytes>(replay.receive(kVerdictBytes));
  const std::string refusal = text_of(ErrorCode::Unauthorized, [&] { recorded.finish(verdict); });
  EXPECT_TRUE(replay.closed_by_peer());
  return refusal;
}

}  // namespace tutti::comm::test
