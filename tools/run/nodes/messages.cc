#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/printable.h>
#include <tutti/tools/run/nodes/messages.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tutti::tools {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr std::size_t kMostWords = 1 << 20;  // a round of 100,000 ranks

[[noreturn]] void make_no_sense(const std::string& what) {
  throw comm::Error(comm::ErrorCode::Protocol, "a message between agents makes no sense: " + what);
}

// Appends values to a message.
class Writer {
 public:
  explicit Writer(std::string kind) { words_.push_back(std::move(kind)); }

  Writer& text(const std::string& value) {
    words_.push_back(value);
    return *this;
  }
  Writer& number(std::int64_t value) { return text(std::to_string(value)); }
  Writer& texts(const std::vector<std::string>& values) {
    number(static_cast<std::int64_t>(values.size()));
    words_.insert(words_.end(), values.begin(), values.end());
    return *this;
  }
  Words words() { return std::move(words_); }

 private:
  Words words_;
};

// Takes them out again, in the same order.
class Reader {
 public:
  Reader(const Words& words, const std::string& kind) : words_(words) {
    if (kind_of(words) != kind)
      make_no_sense("it is '" + comm::printable(words[0], 40) + "' instead of '" + kind + "'");
  }

  const std::string& text() {
    if (next_ >= words_.size()) make_no_sense("'" + words_[0] + "' ends after " + std::to_string(next_) + " words");
    return words_[next_++];
  }

  template <typename T>
  T number() {
    const std::string& word = text();
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      make_no_sense("'" + comm::printable(word, 40) + "' in '" + words_[0] + "' is no number");
    return value;
  }

  bool flag() { return number<int>() != 0; }

  // Of things that take at least one word each.
  std::size_t count() {
    const auto value = number<std::size_t>();
    if (value > words_.size() - next_)
      make_no_sense("'" + words_[0] + "' promises " + std::to_string(value) + " entries and ends");
    return value;
  }

  std::vector<std::string> texts() {
    std::vector<std::string> result(count());
    for (std::string& entry : result) entry = text();
    return result;
  }

 private:
  const Words& words_;
  std::size_t next_ = 1;
};

constexpr int kNoNodeRank = -1;

void write_rank(Writer& writer, const RankEnd& rank, RankEnd::Clock::time_point now) {
  writer.number(rank.rank).number(rank.pid).text(rank.host).text(rank.last_words);
  writer.number(duration_cast<microseconds>(now - rank.started).count());
  writer.number(duration_cast<microseconds>(now - rank.ended).count());
  writer.number(rank.running)
      .number(rank.by_signal)
      .number(rank.core_dumped)
      .number(rank.code)
      .number(rank.frozen)
      .number(rank.replaced);
  writer.number(static_cast<std::int64_t>(rank.sent.size()));
  for (const int signal : rank.sent) writer.number(signal);
}

RankEnd read_rank(Reader& reader, RankEnd::Clock::time_point now) {
  RankEnd rank;
  rank.rank = reader.number<int>();
  rank.pid = reader.number<pid_t>();
  rank.host = reader.text();
  rank.last_words = reader.text();
  rank.started = now - microseconds(reader.number<std::int64_t>());
  rank.ended = now - microseconds(reader.number<std::int64_t>());
  rank.running = reader.flag();
  rank.by_signal = reader.flag();
  rank.core_dumped = reader.flag();
  rank.code = reader.number<int>();
  rank.frozen = reader.flag();
  rank.replaced = reader.flag();
  for (std::size_t left = reader.count(); left > 0; --left) rank.sent.insert(reader.number<int>());
  return rank;
}

void write_place(Writer& writer, const NodePlace& node) {
  writer.number(node.agent).text(node.host).number(node.pid).text(node.address);
  writer.number(node.nproc).number(node.cores).number(node.first_rank);
}

NodePlace read_place(Reader& reader) {
  NodePlace node;
  node.agent = reader.number<int>();
  node.host = reader.text();
  node.pid = reader.number<int>();
  node.address = reader.text();
  node.nproc = reader.number<int>();
  node.cores = reader.number<int>();
  node.first_rank = reader.number<int>();
  return node;
}

}  // namespace

std::string encode_words(const Words& words) {
  std::string bytes;
  for (const std::string& word : words) bytes += std::to_string(word.size()) + ':' + word + ',';
  return bytes;
}

Words decode_words(const std::string& bytes) {
  Words words;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0;
    const char* const begin = bytes.data() + at;
    const auto [end, error] = std::from_chars(begin, bytes.data() + bytes.size(), length);
    const std::size_t start = at + static_cast<std::size_t>(end - begin) + 1;
    const bool fits = error == std::errc() && start <= bytes.size() && *end == ':' && length < bytes.size() - start &&
                      bytes[start + length] == ',';
    if (!fits)
      make_no_sense("byte " + std::to_string(at) + " begins no word: " + comm::printable(bytes.substr(at), 40));
    if (words.size() == kMostWords) make_no_sense("it has more than " + std::to_string(kMostWords) + " words");
    words.push_back(bytes.substr(start, length));
    at = start + length + 1;
  }
  return words;
}

const std::string& kind_of(const Words& words) {
  if (words.empty()) make_no_sense("it is empty");
  return words.front();
}

std::optional<int> RoundPlan::node_of(int agent) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodePlace& n) { return n.agent == agent; });
  if (found == nodes.end()) return std::nullopt;
  return static_cast<int>(found - nodes.begin());
}

Words to_words(const Hello& message) {
  Writer writer("hello");
  writer.number(message.node_rank.value_or(kNoNodeRank)).number(message.is_coordinators);
  writer.text(message.host).number(message.pid).text(message.address);
  writer.number(message.nproc).number(message.cores).number(message.reserved_port);
  writer.number(static_cast<std::int64_t>(message.settings.size()));
  for (const auto& [name, value] : message.settings) writer.text(name).text(value);
  return writer.words();
}

Hello to_hello(const Words& words) {
  Reader reader(words, "hello");
  Hello message;
  const int node_rank = reader.number<int>();
  if (node_rank != kNoNodeRank) message.node_rank = node_rank;
  message.is_coordinators = reader.flag();
  message.host = reader.text();
  message.pid = reader.number<int>();
  message.address = reader.text();
  message.nproc = reader.number<int>();
  message.cores = reader.number<int>();
  message.reserved_port = reader.number<std::uint16_t>();
  for (std::size_t left = reader.count(); left > 0; --left) {
    const std::string name = reader.text();
    message.settings.emplace_back(name, reader.text());
  }
  if (message.nproc < (message.is_coordinators ? 0 : 1))
    make_no_sense("an agent brings " + std::to_string(message.nproc) + " ranks");
  return message;
}

Words to_words(const Started& message) {
  Writer writer("started");
  writer.number(message.round).number(static_cast<std::int64_t>(message.pids.size()));
  for (const int pid : message.pids) writer.number(pid);
  return writer.texts(message.cores).words();
}

Started to_started(const Words& words) {
  Reader reader(words, "started");
  Started message{reader.number<int>(), std::vector<int>(reader.count()), {}};
  for (int& pid : message.pids) pid = reader.number<int>();
  message.cores = reader.texts();
  return message;
}

Words to_words(const Failed& message) { return Writer("failed").number(message.round).words(); }
Failed to_failed(const Words& words) { return {Reader(words, "failed").number<int>()}; }

Words to_words(const Ended& message, RankEnd::Clock::time_point now) {
  Writer writer("ended");
  writer.number(message.round).text(message.cannot_start).number(message.status);
  writer.number(static_cast<std::int64_t>(message.ranks.size()));
  for (const RankEnd& rank : message.ranks) write_rank(writer, rank, now);
  writer.number(message.first_failed).text(message.hint).texts(message.tail);
  return writer.words();
}

Ended to_ended(const Words& words, RankEnd::Clock::time_point now) {
  Reader reader(words, "ended");
  Ended message;
  message.round = reader.number<int>();
  message.cannot_start = reader.text();
  message.status = reader.number<int>();
  for (std::size_t left = reader.count(); left > 0; --left) message.ranks.push_back(read_rank(reader, now));
  message.first_failed = reader.number<int>();
  message.hint = reader.text();
  message.tail = reader.texts();
  return message;
}

Words to_words(const Interrupted& message) {
  return Writer("interrupted").number(message.signal).number(message.again).words();
}
Interrupted to_interrupted(const Words& words) {
  Reader reader(words, "interrupted");
  const int signal = reader.number<int>();
  return {signal, reader.flag()};
}

Words to_words(const Forwarded& message) { return Writer("forwarded").number(message.signal).words(); }
Forwarded to_forwarded(const Words& words) { return {Reader(words, "forwarded").number<int>()}; }

Words to_words(const GiveUp& message) { return Writer("give up").text(message.text).number(message.had_begun).words(); }
GiveUp to_give_up(const Words& words) {
  Reader reader(words, "give up");
  const std::string text = reader.text();
  return {text, reader.flag()};
}

Words to_words(const RoundPlan& message) {
  Writer writer("plan");
  writer.number(message.round).number(message.restart_count).number(message.world_size).text(message.job_id);
  writer.text(message.about).text(message.master_addr).number(message.master_port).number(message.control_port);
  writer.number(static_cast<std::int64_t>(message.nodes.size()));
  for (const NodePlace& node : message.nodes) write_place(writer, node);
  return writer.words();
}

RoundPlan to_round_plan(const Words& words) {
  Reader reader(words, "plan");
  RoundPlan message;
  message.round = reader.number<int>();
  message.restart_count = reader.number<int>();
  message.world_size = reader.number<int>();
  message.job_id = reader.text();
  message.about = reader.text();
  message.master_addr = reader.text();
  message.master_port = reader.number<std::uint16_t>();
  message.control_port = reader.number<std::uint16_t>();
  for (std::size_t left = reader.count(); left > 0; --left) message.nodes.push_back(read_place(reader));
  return message;
}

Words to_words(const Order& message) {
  return Writer("order").number(message.round).number(static_cast<int>(message.kind)).number(message.signal).words();
}

Order to_order(const Words& words) {
  Reader reader(words, "order");
  Order message;
  message.round = reader.number<int>();
  const int kind = reader.number<int>();
  if (kind < 0 || kind > static_cast<int>(Order::Kind::Signal))
    make_no_sense("no order has number " + std::to_string(kind));
  message.kind = static_cast<Order::Kind>(kind);
  message.signal = reader.number<int>();
  return message;
}

Words to_words(const Verdict& message) {
  return Writer("verdict")
      .number(message.round)
      .number(message.final)
      .number(message.status)
      .text(message.summary)
      .words();
}

Verdict to_verdict(const Words& words) {
  Reader reader(words, "verdict");
  Verdict message;
  message.round = reader.number<int>();
  message.final = reader.flag();
  message.status = reader.number<int>();
  message.summary = reader.text();
  return message;
}

Words to_words(const Notice& message) { return Writer("notice").text(message.text).words(); }
Notice to_notice(const Words& words) { return {Reader(words, "notice").text()}; }

Words to_words(const Refusal& message) { return Writer("refusal").text(message.text).words(); }
Refusal to_refusal(const Words& words) { return {Reader(words, "refusal").text()}; }

}  // namespace tutti::tools
