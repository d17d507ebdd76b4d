#include <fcntl.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/standard_input.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tutti::tools {

StandardInput::StandardInput(bool wanted) {
  if (!wanted) return;
  if (::isatty(STDIN_FILENO) != 1) {
    rank_end_ = STDIN_FILENO;
    return;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) comm::throw_errno("cannot make a pipe for a rank's standard input", errno);
  rank_end_ = ends[0];
  pipe_ = ends[1];
  ::fcntl(pipe_, F_SETFL, O_WRONLY | O_NONBLOCK);
}

StandardInput::~StandardInput() {
  handed_over();
  close_pipe();
}

void StandardInput::handed_over() {
  if (rank_end_ > STDIN_FILENO) ::close(rank_end_);
  rank_end_ = -1;
}

void StandardInput::add_poll_entries(std::vector<pollfd>& entries) const {
  if (pipe_ < 0) return;
  if (waiting_.empty()) entries.push_back({STDIN_FILENO, POLLIN, 0});
  entries.push_back({pipe_, static_cast<short>(waiting_.empty() ? 0 : POLLOUT), 0});
}

void StandardInput::handle(const pollfd& entry) {
  if (pipe_ < 0 || entry.revents == 0) return;
  if (entry.fd == STDIN_FILENO) read_terminal();
  if (entry.fd != pipe_) return;
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
  const ssize_t count = ::write(pipe_, waiting_.data(), waiting_.size());
  if (count >= 0) {
    waiting_.erase(0, static_cast<std::size_t>(count));
  } else if (errno != EAGAIN && errno != EINTR) {
    close_pipe();
  }
}

void StandardInput::close_pipe() {
  if (pipe_ >= 0) ::close(std::exchange(pipe_, -1));
  waiting_.clear();
}

}  // namespace tutti::tools
