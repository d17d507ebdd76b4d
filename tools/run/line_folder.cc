#include <tutti/tools/run/line_folder.h>

#include <algorithm>
#include <iterator>

namespace tutti::tools {

void LineFolder::add(int rank, Stream stream, std::string_view text, Clock::time_point now, const Emit& emit) {
  Lines::iterator& last = last_line_[static_cast<std::size_t>(rank)];
  const auto begin = last == waiting_.end() ? waiting_.begin() : std::next(last);
  const auto found =
      std::find_if(begin, waiting_.end(), [&](const Line& line) { return line.stream == stream && line.text == text; });
  if (found != waiting_.end()) {
    found->ranks.push_back(rank);
    last = found;
  } else {
    // What stands behind it must not wait longer for its sake.
    const auto due = begin == waiting_.end() ? now + kWindow : begin->due;
    last = waiting_.insert(begin, {{rank}, stream, std::string(text), due});
    bytes_ += text.size();
  }
  const auto complete = [&] { return !waiting_.empty() && waiting_.front().ranks.size() == last_line_.size(); };
  while (complete() || waiting_.size() > kMostLines || bytes_ > kMostBytes) emit_first(emit);
}

void LineFolder::release(Clock::time_point now, const Emit& emit) {
  while (!waiting_.empty() && waiting_.front().due <= now) emit_first(emit);
}

void LineFolder::flush(const Emit& emit) {
  while (!waiting_.empty()) emit_first(emit);
}

std::optional<LineFolder::Clock::time_point> LineFolder::next_due() const {
  return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().due);
}

void LineFolder::emit_first(const Emit& emit) {
  emit(waiting_.front());
  bytes_ -= waiting_.front().text.size();
  for (const int rank : waiting_.front().ranks) {
    Lines::iterator& last = last_line_[static_cast<std::size_t>(rank)];
    if (last == waiting_.begin()) last = waiting_.end();
  }
  waiting_.pop_front();
}

}  // namespace tutti::tools
