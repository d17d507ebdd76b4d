#include <tutti/tools/run/nodes/messages.h>

#include <algorithm>

namespace tutti::tools {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr int kNoNodeRank = -1;

void write_rank(WordWriter& writer, const RankEnd& rank, RankEnd::Clock::time_point now) {
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

RankEnd read_rank(WordReader& reader, RankEnd::Clock::time_point now) {
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

void write_place(WordWriter& writer, const NodePlace& node) {
  writer.number(node.agent).text(node.host).number(node.pid).text(node.address);
  writer.number(node.nproc).number(node.cores).number(node.first_rank);
}

NodePlace read_place(WordReader& reader) {
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

std::optional<int> RoundPlan::node_of(int agent) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodePlace& n) { return n.agent == agent; });
  if (found == nodes.end()) return std::nullopt;
  return static_cast<int>(found - nodes.begin());
}

Words to_words(const Hello& message) {
  WordWriter writer("hello");
  writer.number(message.node_rank.value_or(kNoNodeRank)).number(message.is_coordinators);
  writer.text(message.host).number(message.pid).text(message.address);
  writer.number(message.nproc).number(message.cores).number(message.reserved_port);
  writer.number(static_cast<std::int64_t>(message.settings.size()));
  for (const auto& [name, value] : message.settings) writer.text(name).text(value);
  return writer.words();
}

Hello to_hello(const Words& words) {
  WordReader reader(words, "hello");
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
  WordWriter writer("started");
  writer.number(message.round).number(static_cast<std::int64_t>(message.pids.size()));
  for (const int pid : message.pids) writer.number(pid);
  return writer.texts(message.cores).words();
}

Started to_started(const Words& words) {
  WordReader reader(words, "started");
  Started message{reader.number<int>(), std::vector<int>(reader.count()), {}};
  for (int& pid : message.pids) pid = reader.number<int>();
  message.cores = reader.texts();
  return message;
}

Words to_words(const Failed& message) { return WordWriter("failed").number(message.round).words(); }
Failed to_failed(const Words& words) { return {WordReader(words, "failed").number<int>()}; }

Words to_words(const Ended& message, RankEnd::Clock::time_point now) {
  WordWriter writer("ended");
  writer.number(message.round).text(message.cannot_start).number(message.status);
  writer.number(static_cast<std::int64_t>(message.ranks.size()));
  for (const RankEnd& rank : message.ranks) write_rank(writer, rank, now);
  writer.number(message.first_failed).text(message.hint).texts(message.tail);
  return writer.words();
}

Ended to_ended(const Words& words, RankEnd::Clock::time_point now) {
  WordReader reader(words, "ended");
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
  return WordWriter("interrupted").number(message.signal).number(message.again).words();
}
Interrupted to_interrupted(const Words& words) {
  WordReader reader(words, "interrupted");
  const int signal = reader.number<int>();
  return {signal, reader.flag()};
}

Words to_words(const Forwarded& message) { return WordWriter("forwarded").number(message.signal).words(); }
Forwarded to_forwarded(const Words& words) { return {WordReader(words, "forwarded").number<int>()}; }

Words to_words(const GiveUp& message) {
  return WordWriter("give up").text(message.text).number(message.had_begun).words();
}
GiveUp to_give_up(const Words& words) {
  WordReader reader(words, "give up");
  const std::string text = reader.text();
  return {text, reader.flag()};
}

Words to_words(const RoundPlan& message) {
  WordWriter writer("plan");
  writer.number(message.round).number(message.restart_count).number(message.world_size).text(message.job_id);
  writer.text(message.about).text(message.master_addr).number(message.master_port).number(message.control_port);
  writer.number(message.store_port);
  writer.number(static_cast<std::int64_t>(message.nodes.size()));
  for (const NodePlace& node : message.nodes) write_place(writer, node);
  return writer.words();
}

RoundPlan to_round_plan(const Words& words) {
  WordReader reader(words, "plan");
  RoundPlan message;
  message.round = reader.number<int>();
  message.restart_count = reader.number<int>();
  message.world_size = reader.number<int>();
  message.job_id = reader.text();
  message.about = reader.text();
  message.master_addr = reader.text();
  message.master_port = reader.number<std::uint16_t>();
  message.control_port = reader.number<std::uint16_t>();
  message.store_port = reader.number<std::uint16_t>();
  for (std::size_t left = reader.count(); left > 0; --left) message.nodes.push_back(read_place(reader));
  return message;
}

Words to_words(const Order& message) {
  return WordWriter("order")
      .number(message.round)
      .number(static_cast<int>(message.kind))
      .number(message.signal)
      .words();
}

Order to_order(const Words& words) {
  WordReader reader(words, "order");
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
  return WordWriter("verdict")
      .number(message.round)
      .number(message.final)
      .number(message.status)
      .text(message.summary)
      .words();
}

Verdict to_verdict(const Words& words) {
  WordReader reader(words, "verdict");
  Verdict message;
  message.round = reader.number<int>();
  message.final = reader.flag();
  message.status = reader.number<int>();
  message.summary = reader.text();
  return message;
}

Words to_words(const Notice& message) { return WordWriter("notice").text(message.text).words(); }
Notice to_notice(const Words& words) { return {WordReader(words, "notice").text()}; }

Words to_words(const Refusal& message) { return WordWriter("refusal").text(message.text).words(); }
Refusal to_refusal(const Words& words) { return {WordReader(words, "refusal").text()}; }

}  // namespace tutti::tools
