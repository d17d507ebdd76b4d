#include <limits.h>
#include <sys/stat.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/tools/run/output.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tutti::tools {
namespace {

bool is_same_file(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

constexpr std::string_view kClearLine = "\r\033[K";

bool knows_sequences(int fd) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(fd) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  const auto end_line = [&](bool live) {
    // Progress bars begin with "\r": that is no empty line, unless "\n" follows.
    if (!live || !partial_.empty()) on_line(partial_, live);
    partial_.clear();
  };
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false)) {
      const bool newline = bytes.front() == '\n';
      end_line(!newline);
      bytes.remove_prefix(newline ? 1 : 0);
      continue;
    }
    const std::size_t room = kMaxLine - partial_.size();
    const std::size_t end = bytes.substr(0, room).find_first_of("\r\n");
    const bool complete = end != std::string_view::npos;
    const std::size_t taken = complete ? end : std::min(room, bytes.size());
    partial_.append(bytes.substr(0, taken));
    after_return_ = complete && bytes[end] == '\r';
    if (!after_return_ && (complete || partial_.size() == kMaxLine)) end_line(false);
    bytes.remove_prefix(taken + (complete ? 1 : 0));
  }
}

void LineSplitter::finish(const OnLine& on_line) {
  if (!partial_.empty()) on_line(partial_, after_return_);
  partial_.clear();
}

Sink::Sink(int fd)
    : fd_(fd), terminal_(knows_sequences(fd)), colours_(terminal_ && std::getenv("NO_COLOR") == nullptr) {}

void Sink::show_live(std::string_view text) {
  push(comm::fitted(text, comm::terminal_columns(fd_)));
  live_ = true;
}

void Sink::push(std::string_view bytes) {
  if (closed()) return;
  if (written_ > 0 && written_ == queue_.size()) {
    queue_.clear();
    written_ = 0;
  }
  if (std::exchange(live_, false)) queue_.append(kClearLine);
  queue_.append(bytes);
}

void Sink::write_some() {
  // poll promises room for PIPE_BUF bytes; more could block on a descriptor that is in blocking mode.
  const std::size_t chunk = std::min<std::size_t>(queue_.size() - written_, PIPE_BUF);
  const ssize_t count = ::write(fd_, queue_.data() + written_, chunk);
  if (count >= 0) {
    written_ += static_cast<std::size_t>(count);
    if (written_ > kHighWater) {  // keep the part that is done from growing
      queue_.erase(0, written_);
      written_ = 0;
    }
  } else if (errno != EAGAIN && errno != EINTR) {
    error_ = errno;
    queue_.clear();
    written_ = 0;
  }
}

Console::Console() : out_(STDOUT_FILENO), err_(STDERR_FILENO), same_(is_same_file(STDOUT_FILENO, STDERR_FILENO)) {}

void Console::add_poll_entries(std::vector<pollfd>& entries) {
  if (out().has_bytes()) entries.push_back({out().fd(), POLLOUT, 0});
  if (!same_ && err_.has_bytes()) entries.push_back({err_.fd(), POLLOUT, 0});
}

void Console::handle(const pollfd& entry) {
  if (entry.revents == 0) return;
  if (entry.fd == out_.fd()) write(out_, err_, "output");
  if (!same_ && entry.fd == err_.fd()) write(err_, out_, "error");
}

// A full disk must not end ranks: what they print is read, and goes to their log files as before. A reader that went
// away ends them as it would without a launcher, and needs no words.
void Console::write(Sink& sink, Sink& other, const char* name) {
  sink.write_some();
  if (!sink.closed() || sink.unread() || same_) return;
  other.push("tutti: cannot write standard " + std::string(name) + ": " + std::strerror(sink.error()) +
             "; the ranks go on without it\n");
}

}  // namespace tutti::tools
