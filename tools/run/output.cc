#include <limits.h>
#include <sys/stat.h>
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

bool shows_colours(int fd) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      if (std::exchange(skipped_empty_, false)) on_line("");
      bytes.remove_prefix(1);
      continue;
    }
    skipped_empty_ = false;
    const std::size_t room = kMaxLine - partial_.size();
    const std::size_t end = bytes.substr(0, room).find_first_of("\r\n");
    const bool complete = end != std::string_view::npos;
    const std::size_t taken = complete ? end : std::min(room, bytes.size());
    partial_.append(bytes.substr(0, taken));
    if (complete) after_return_ = bytes[end] == '\r';
    // Progress bars begin with "\r": that is no empty line, unless "\n" follows.
    skipped_empty_ = after_return_ && partial_.empty();
    if ((complete && !skipped_empty_) || partial_.size() == kMaxLine) {
      on_line(partial_);
      partial_.clear();
    }
    bytes.remove_prefix(taken + (complete ? 1 : 0));
  }
}

void LineSplitter::finish(const OnLine& on_line) {
  if (!partial_.empty()) on_line(partial_);
  partial_.clear();
}

Sink::Sink(int fd) : fd_(fd), colours_(shows_colours(fd)) {}

void Sink::push(std::string_view bytes) {
  if (closed()) return;
  if (written_ > 0 && written_ == queue_.size()) {
    queue_.clear();
    written_ = 0;
  }
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
