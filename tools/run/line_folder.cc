#include <tutti/tools/run/line_folder.h>

#include <algorithm>

namespace tutti::tools {

void LineFolder::add(int rank, Stream stream, std::string_view text, Clock::time_point now, const Emit& emit) {
  std::uint64_t& last = last_line_[static_cast<std::size_t>(rank)];
  const std::size_t begin = last > gone_ ? static_cast<std::size_t>(last - gone_) : 0;
  const auto found =
      std::find_if(waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(begin, waiting_.size())), waiting_.end(),
                   [&](const Line& line) { return line.stream == stream && line.text == text; });
  last = gone_ + static_cast<std::uint64_t>(found - waiting_.begin()) + 1;
  if (found != waiting_.end()) {
    found->ranks.push_back(rank);
  } else {
    waiting_.push_back({{rank}, stream, std::string(text), now + kWindow});
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
  waiting_.pop_front();
  ++gone_;
}

}  // namespace tutti::tools
