#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/tools/run/nodes/messages.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace nlohmann {

template <>
struct adl_serializer<std::optional<int>> {
  static void to_json(json& j, const std::optional<int>& value) { j = value ? json(*value) : json(nullptr); }
  static void from_json(const json& j, std::optional<int>& value) {
    value = j.is_null() ? std::nullopt : std::optional(j.get<int>());
  }
};

template <>
struct adl_serializer<tutti::tools::RankEnd::Clock::time_point> {
  using Time = tutti::tools::RankEnd::Clock::time_point;
  static void to_json(json& j, const Time& time) { j = time.time_since_epoch().count(); }
  static void from_json(const json& j, Time& time) { time = Time(Time::duration(j.get<Time::rep>())); }
};

}  // namespace nlohmann

namespace tutti::tools {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankEnd, rank, place, pid, host, cpus, started, ended, running, by_signal,
                                   core_dumped, code, frozen, sent, replaced, evidence, last_lines, error_told)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hello, node_rank, is_coordinators, host, pid, address, nproc, cores, reserved_port,
                                   settings)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, round, ranks, over, cannot_start, status)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Signalled, signal, again)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GiveUp, text, had_begun)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodePlace, agent, host, pid, address, nproc, cores, first_rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RoundPlan, round, restart_count, world_size, job_id, about, master_addr, master_port,
                                   nodes, control_port, store_port)
NLOHMANN_JSON_SERIALIZE_ENUM(Order::Act, {{Order::Act::Settle, "settle"},
                                          {Order::Act::Terminate, "terminate"},
                                          {Order::Act::Kill, "kill"},
                                          {Order::Act::Signal, "signal"},
                                          {Order::Act::Rescue, "rescue"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Order::Start, local_rank, restart_count, environment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Order, round, act, signal, lost, frozen, starts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Verdict, round, final, status, summary)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Notice, text)

namespace {

// In the order of Message's alternatives.
constexpr const char* kKinds[] = {"hello", "report", "signalled", "give up", "plan", "order", "verdict", "notice"};
static_assert(std::size(kKinds) == std::variant_size_v<Message>);

template <typename T>
Message read_as(const Json& json) {
  return json.get<T>();
}

template <std::size_t... I>
Message read(std::size_t kind, const Json& json, std::index_sequence<I...>) {
  constexpr Message (*kReaders[])(const Json&) = {read_as<std::variant_alternative_t<I, Message>>...};
  return kReaders[kind](json);
}

Message to_message(const Json& json) {
  const std::string kind = json.at("kind");
  const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  if (found == std::end(kKinds)) make_no_sense("it is of kind '" + comm::printable(kind, 40) + "'");
  return read(static_cast<std::size_t>(found - std::begin(kKinds)), json,
              std::make_index_sequence<std::variant_size_v<Message>>());
}

// What a value of the right type may not say.
void check(const Message& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->nproc < (hello->is_coordinators ? 0 : 1))
      make_no_sense("an agent brings " + std::to_string(hello->nproc) + " ranks");
  } else if (const auto* order = std::get_if<Order>(&message)) {
    for (const Order::Start& start : order->starts) {
      if (start.local_rank < 0 || start.restart_count < 0) make_no_sense("a rank to start has a number below 0");
    }
  }
}

void move_times(Message& message, RankEnd::Clock::duration by) {
  auto* const report = std::get_if<Report>(&message);
  if (report == nullptr) return;
  for (RankEnd& rank : report->ranks) {
    rank.started += by;
    rank.ended += by;
  }
}

}  // namespace

void make_no_sense(const std::string& what) {
  throw comm::Error(comm::ErrorCode::Protocol, "a message between agents makes no sense: " + what);
}

std::string encode(const Letter& letter) {
  Json message = std::visit([](const auto& value) { return Json(value); }, letter.message);
  message["kind"] = kKinds[letter.message.index()];
  std::string bytes;
  Json::to_cbor({{"agent", letter.agent}, {"sent", letter.sent}, {"message", message}}, bytes);
  return bytes;
}

Letter decode(const std::string& bytes, RankEnd::Clock::time_point now) {
  Letter letter;
  try {
    const Json json = Json::from_cbor(bytes);
    letter = {json.at("agent"), json.at("sent").get<RankEnd::Clock::time_point>(), to_message(json.at("message"))};
  } catch (const nlohmann::json::exception& error) {
    make_no_sense(error.what());
  }
  // Numbers that do not fit their fields, words that an enumeration does not have, fields too many.
  if (encode(letter) != bytes)
    make_no_sense(std::string("a '") + kKinds[letter.message.index()] + "' has other values");
  check(letter.message);
  move_times(letter.message, now - letter.sent);
  return letter;
}

std::optional<int> RoundPlan::node_of(int agent) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodePlace& n) { return n.agent == agent; });
  if (found == nodes.end()) return std::nullopt;
  return static_cast<int>(found - nodes.begin());
}

}  // namespace tutti::tools
