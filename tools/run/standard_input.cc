#include <fcntl.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/standard_input.h>

#include <cerrno>

namespace tutti::tools {

StandardInput::StandardInput(bool wanted) : wanted_(wanted), is_terminal_(::isatty(STDIN_FILENO) == 1) {
  if (!wanted || !is_terminal_) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) comm::throw_errno("cannot make a pipe for a rank's standard input", errno);
  rank_end_ = comm::Socket(ends[0]);
  pipe_ = comm::Socket(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_WRONLY | O_NONBLOCK);
}

void StandardInput::add_poll_entries(std::vector<pollfd>& entries) const {
  if (pipe_.get() < 0) return;
  if (waiting_.empty()) entries.push_back({STDIN_FILENO, POLLIN, 0});
  entries.push_back({pipe_.get(), static_cast<short>(waiting_.empty() ? 0 : POLLOUT), 0});
}

void StandardInput::handle(const pollfd& entry) {
  if (pipe_.get() < 0 || entry.revents == 0) return;
  if (entry.fd == STDIN_FILENO) read_terminal();
  if (entry.fd != pipe_.get()) return;
  if ((entry.revents & POLLERR) != 0) return close_pipe();  // the rank does not read any more
  write_pipe();
}

void StandardInput::read_terminal() {
  char bytes[4096];  // what a terminal hands out at once at most
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close_pipe();  // Ctrl-D, or the terminal has gone
  waiting_.assign(bytes, static_cast<std::size_t>(count));
  write_pipe();
}

void StandardInput::write_pipe() {
  const ssize_t count = ::write(pipe_.get(), waiting_.data(), waiting_.size());
  if (count >= 0) {
    waiting_.erase(0, static_cast<std::size_t>(count));
  } else if (errno != EAGAIN && errno != EINTR) {
    close_pipe();
  }
}

void StandardInput::close_pipe() {
  pipe_.close();
  waiting_.clear();
}

}  // namespace tutti::tools
