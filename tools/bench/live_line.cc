#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/tools/bench/live_line.h>
#include <tutti/trainer/report/progress.h>
#include <unistd.h>

#include <cstdio>

namespace tutti::tools::bench {

std::string progress_text(const std::string& what, std::size_t done, std::size_t steps,
                          std::chrono::duration<double> elapsed) {
  std::string text = comm::format("%s  step %zu/%zu", what.c_str(), done + 1, steps);
  if (done == 0) return text;
  return text + "  " +
         trainer::time_left(elapsed.count() / static_cast<double>(done) * static_cast<double>(steps - done));
}

LiveLine::LiveLine(bool speaks, std::size_t steps, std::size_t columns)
    : steps_(steps),
      own_columns_(comm::terminal_columns(STDERR_FILENO)),
      shown_(speaks && (own_columns_ > 0 || columns > 0)) {}

void LiveLine::next(const std::string& what) {
  if (!shown_) return;
  const std::string text = progress_text(what, done_++, steps_, std::chrono::steady_clock::now() - begin_);
  if (own_columns_ > 0) {
    std::fprintf(stderr, "\r\033[K%s", std::string(comm::fitted(text, own_columns_)).c_str());
  } else {
    std::fprintf(stderr, "%s\r\r", text.c_str());  // the second one tells the launcher that no "\n" follows
  }
  open_ = own_columns_ > 0;
}

void LiveLine::clear() {
  if (open_) std::fputs("\r\033[K", stderr);
  open_ = false;
}

}  // namespace tutti::tools::bench
