#include <sys/ioctl.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/comm/base/terminal.h>

namespace tutti::comm {
namespace {

constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

std::size_t terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col > 0 ? size.ws_col : 80;
}

std::string_view fitted(std::string_view text, std::size_t columns) {
  std::size_t characters = 0;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    // The last column stays empty: some terminals go to the next line behind it.
    if (begins && ++characters == columns) break;
  }
  if (at == text.size() || text.substr(at).starts_with("  ")) return text.substr(0, at);
  const std::size_t part = text.rfind("  ", at);
  return text.substr(0, part == std::string_view::npos || part == 0 ? at : part);
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string result(text);
  std::size_t begin = 0, space = std::string::npos;  // of the line; the last one in it that follows a word
  for (std::size_t at = 0; columns > 0 && at < result.size(); ++at) {
    const bool breaks = result[at] == ' ' && at > begin && result[at - 1] != ' ';
    if (result[at] == '\n') {
      begin = at + 1;
      space = std::string::npos;
    }
    if (breaks) space = at;
    if (at - begin < columns || space == std::string::npos) continue;
    const std::size_t word = result.find_first_not_of(' ', space);
    if (word == std::string::npos) break;
    result.replace(space, word - space, "\n");
    at = begin = space + 1;
    space = std::string::npos;
  }
  return result;
}

void LiveLine::show(const std::string& text) {
  if (file_ == nullptr) return;
  const std::size_t columns = terminal_columns(::fileno(file_));
  const std::string shown = printable_utf8(text);
  if (columns > 0) {
    std::fprintf(file_, "%s%s", kClearLine, std::string(fitted(shown, columns)).c_str());
    is_open_ = true;
  } else if (relayed_) {
    std::fprintf(file_, "%s\r\r", shown.c_str());  // the second one tells the launcher that no "\n" follows
  }
  std::fflush(file_);
}

void LiveLine::clear() {
  if (is_open_) std::fputs(kClearLine, file_);
  is_open_ = false;
}

}  // namespace tutti::comm
