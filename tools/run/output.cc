#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/output.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace tutti::tools {
namespace {

constexpr std::size_t kMaxTailLine = 2000;

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
  if (closed_) return;
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
    closed_ = true;
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
  if (entry.fd == out_.fd()) out_.write_some();
  if (!same_ && entry.fd == err_.fd()) err_.write_some();
}

RankOutput::RankOutput(int rank, int out_fd, int err_fd, const RankOutputOptions& options, Console& console)
    : options_(options), streams_{{out_fd, &console.out()}, {err_fd, &console.err()}} {
  static constexpr const char* kColours[] = {"36", "33", "35", "32", "34", "31"};
  label_ = "[rank " + std::to_string(rank) + "] ";
  colour_label_ = std::string("\033[") + kColours[rank % 6] + "m" + label_ + "\033[0m";
  if (options_.log_file.empty()) return;
  log_fd_ = ::open(options_.log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log_fd_ < 0) {
    const int error = errno;
    ::close(out_fd);
    ::close(err_fd);
    comm::throw_errno("cannot write the log file " + options_.log_file, error);
  }
}

RankOutput::~RankOutput() {
  for (Stream& stream : streams_) {
    if (stream.fd >= 0) ::close(stream.fd);
  }
  if (log_fd_ >= 0) ::close(log_fd_);
}

void RankOutput::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const Stream& stream : streams_) {
    if (stream.fd >= 0 && !stream.sink->congested()) entries.push_back({stream.fd, POLLIN, 0});
  }
}

bool RankOutput::handle(const pollfd& entry) {
  for (Stream& stream : streams_) {
    if (entry.fd != stream.fd) continue;
    if (entry.revents != 0) read_some(stream);
    return true;
  }
  return false;
}

void RankOutput::finish() {
  for (Stream& stream : streams_) {
    while (stream.fd >= 0 && read_some(stream)) {
    }
    if (stream.fd >= 0) close_stream(stream);
  }
}

// True if there were bytes; closes the stream at its end, and when nobody is left who would read what it says.
bool RankOutput::read_some(Stream& stream) {
  char bytes[16 * 1024];
  const ssize_t count = ::read(stream.fd, bytes, sizeof(bytes));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0 || (stream.sink->closed() && log_fd_ < 0)) {
    close_stream(stream);
    return false;
  }
  const std::string_view view(bytes, static_cast<std::size_t>(count));
  log(view);
  if (options_.to_console && !options_.split_lines) stream.sink->push(view);
  stream.splitter.feed(view, [&](std::string_view line) { emit(stream, line); });
  return true;
}

void RankOutput::close_stream(Stream& stream) {
  stream.splitter.finish([&](std::string_view line) { emit(stream, line); });
  ::close(stream.fd);
  stream.fd = -1;
}

void RankOutput::emit(Stream& stream, std::string_view line) {
  remember(line);
  if (!options_.to_console || !options_.split_lines) return;
  std::string text;
  if (options_.label) text = stream.sink->colours() ? colour_label_ : label_;
  text.append(line).push_back('\n');
  stream.sink->push(text);
}

void RankOutput::remember(std::string_view line) {
  tail_.emplace_back(line.size() <= kMaxTailLine ? std::string(line)
                                                 : std::string(line.substr(0, kMaxTailLine)) + "...");
  if (tail_.size() > kTailLines) tail_.pop_front();
}

void RankOutput::log(std::string_view bytes) {
  while (log_fd_ >= 0 && !bytes.empty()) {
    const ssize_t count = ::write(log_fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const std::string reason = comm::errno_text(errno);
      streams_[1].sink->push("tutti: stopped writing " + options_.log_file + ": " + reason + "\n");
      ::close(std::exchange(log_fd_, -1));
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace tutti::tools
