#include <signal.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

namespace tutti::comm {

struct Chaos::Kind {
  std::string_view name;
  const char* does;
  const char* needs;  // beside its rank; each may have a step
};

namespace {

struct Limit {
  std::string_view name;
  double least, most;
};
constexpr Limit kSettings[] = {{"rank", 0, 1 << 20}, {"step", 0, 1e15}, {"factor", 1, 1000}, {"ms", 0, 600'000}};

[[noreturn]] void refuse_chaos(const std::string& text, const std::string& why) {
  refuse("chaos \"", printable(text, 200), "\": ", why,
         "; known are kill:rank=R,step=S freeze:rank=R,step=S slow:rank=R,factor=F[,step=S] "
         "delay:rank=R,ms=M[,step=S]");
}

/// A whole number but for `factor`; within the setting's bounds.
double number(const std::string& whole, const std::string& name, const std::string& text) {
  const auto* const known = std::ranges::find(kSettings, name, &Limit::name);
  const auto value = decimal<double>(text);
  if (!value || !(*value >= known->least && *value <= known->most))
    refuse_chaos(whole, name + "=" + text + " is no number that makes sense there");
  if (name != "factor" && std::trunc(*value) != *value) refuse_chaos(whole, name + "=" + text + " is no whole number");
  return *value;
}

bool in_first_life(const Environment& environment) {
  const std::string restarts = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  const std::string worker = environment("TUTTI_WORKER").value_or("0.0.0");
  return restarts == "0" && worker.substr(worker.rfind('.') + 1) == "0";
}

}  // namespace

ChaosHands ChaosHands::real() {
  return {[](int signal) { ::kill(::getpid(), signal); },
          [](std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); },
          [] { return std::chrono::steady_clock::now(); }};
}

Chaos::Chaos(const std::string& text, const Environment& environment, ChaosHands hands)
    : first_life_(in_first_life(environment)), hands_(std::move(hands)) {
  if (text.empty()) return;
  for (const std::string& part : split(text, ';')) events_.push_back(parse(part));
}

Chaos::Event Chaos::parse(const std::string& text) {
  static constexpr Kind kKinds[] = {{"kill", "kills itself", "step"},
                                    {"freeze", "freezes", "step"},
                                    {"slow", "becomes slow", "factor"},
                                    {"delay", "waits", "ms"}};
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  Event event{.kind = std::ranges::find(kKinds, kind, &Kind::name), .text = text};
  if (event.kind == std::end(kKinds) || colon == std::string::npos)
    refuse_chaos(text, "\"" + printable(kind, 40) + "\" is no kind of it");
  for (const std::string& setting : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (equals == std::string::npos) refuse_chaos(text, "\"" + printable(setting, 40) + "\" has no \"=\"");
    if (name != "rank" && name != "step" && name != event.kind->needs)
      refuse_chaos(text, "\"" + printable(name, 40) + "\" means nothing there");
    if (!event.settings.emplace(name, number(text, name, setting.substr(equals + 1))).second)
      refuse_chaos(text, name + " is there twice");
  }
  for (const char* needed : {"rank", event.kind->needs})
    if (!event.settings.contains(needed)) refuse_chaos(text, std::string(needed) + "= is missing");
  return event;
}

void Chaos::begin_step(int rank, std::int64_t step) {
  if (events_.empty()) return;
  for (Event& event : events_)
    if (event.settings.at("rank") == rank) strike(event, step);
  step_began_ = hands_.now();
}

void Chaos::warn_of_absent_ranks(int world_size) const {
  for (const Event& event : events_)
    if (event.settings.at("rank") >= world_size)
      log(LogLevel::Warn, "chaos: ", event.text, " strikes no rank: there are 0 to ", world_size - 1);
}

void Chaos::strike(Event& event, std::int64_t number) {
  const auto step = static_cast<double>(number);
  const auto at = event.settings.find("step");
  const bool is_slow = event.kind->name == "slow", is_delay = event.kind->name == "delay";
  if (at != event.settings.end() && (is_slow ? step < at->second : step != at->second)) return;
  if (is_slow ? !step_began_ : !is_delay && !first_life_) return;
  if (!std::exchange(event.told, true))
    log(LogLevel::Warn, format("chaos: rank %.0f %s at step %.0f (%s)", event.settings.at("rank"), event.kind->does,
                               step, event.text.c_str()));
  if (is_slow)
    return hands_.sleep(std::chrono::duration_cast<std::chrono::nanoseconds>((event.settings.at("factor") - 1) *
                                                                             (hands_.now() - *step_began_)));
  if (is_delay) return hands_.sleep(std::chrono::milliseconds(std::lround(event.settings.at("ms"))));
  hands_.raise(event.kind->name == "kill" ? SIGKILL : SIGSTOP);
}

}  // namespace tutti::comm
