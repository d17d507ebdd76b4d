#include <signal.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

constexpr double kMaxFactor = 1000;
constexpr double kMaxDelayMs = 600'000;
constexpr double kMaxRank = 1 << 20;
constexpr double kMaxStep = 1e15;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::InvalidArgument,
              "chaos \"" + printable(text, 200) + "\": " + why +
                  "; known are kill:rank=R,step=S freeze:rank=R,step=S slow:rank=R,factor=F[,step=S] "
                  "delay:rank=R,ms=M[,step=S]");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

/// A whole number but for `factor`; within the setting's bounds.
double number(const std::string& whole, const std::string& name, const std::string& text) {
  const double least = name == "factor" ? 1 : 0;
  const double most = name == "factor" ? kMaxFactor : name == "ms" ? kMaxDelayMs : name == "rank" ? kMaxRank : kMaxStep;
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    refuse(whole, name + "=" + text + " is no number that makes sense there");
  if (name != "factor" && std::trunc(value) != value) refuse(whole, name + "=" + text + " is no whole number");
  return value;
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
  static const std::map<std::string, Kind> kinds{
      {"kill", Kind::Kill}, {"freeze", Kind::Freeze}, {"slow", Kind::Slow}, {"delay", Kind::Delay}};
  const std::size_t colon = text.find(':');
  const auto kind = kinds.find(text.substr(0, colon));
  if (kind == kinds.end() || colon == std::string::npos)
    refuse(text, "\"" + printable(text.substr(0, colon), 40) + "\" is no kind of it");
  std::map<std::string, std::string> settings;
  for (const std::string& setting : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) refuse(text, "\"" + printable(setting, 40) + "\" has no \"=\"");
    if (!settings.emplace(setting.substr(0, equals), setting.substr(equals + 1)).second)
      refuse(text, setting.substr(0, equals) + " is there twice");
  }
  const auto take = [&](const std::string& key) -> std::optional<double> {
    const auto node = settings.extract(key);
    return node.empty() ? std::nullopt : std::optional(number(text, key, node.mapped()));
  };
  const auto need = [&](const std::string& key) {
    const auto value = take(key);
    if (!value) refuse(text, key + "= is missing");
    return *value;
  };
  Event event{.kind = kind->second, .rank = static_cast<int>(need("rank")), .text = text};
  const bool ends_it = event.kind == Kind::Kill || event.kind == Kind::Freeze;
  if (const auto step = ends_it ? need("step") : take("step")) event.step = static_cast<std::int64_t>(*step);
  if (event.kind == Kind::Slow) event.factor = need("factor");
  if (event.kind == Kind::Delay) event.delay = std::chrono::milliseconds(static_cast<std::int64_t>(need("ms")));
  if (!settings.empty()) refuse(text, "\"" + printable(settings.begin()->first, 40) + "\" means nothing there");
  return event;
}

void Chaos::begin_step(int rank, std::int64_t step) {
  if (events_.empty()) return;
  for (Event& event : events_)
    if (event.rank == rank) strike(event, step);
  step_began_ = hands_.now();
}

void Chaos::strike(Event& event, std::int64_t step) {
  switch (event.kind) {
    case Kind::Kill:
    case Kind::Freeze:
      if (step != *event.step || !first_life_) return;
      tell(event, step, event.kind == Kind::Kill ? "kills itself" : "freezes");
      return hands_.raise(event.kind == Kind::Kill ? SIGKILL : SIGSTOP);
    case Kind::Slow:
      if (step < event.step.value_or(0) || !step_began_) return;
      tell(event, step, "becomes slow");
      return hands_.sleep(
          std::chrono::duration_cast<std::chrono::nanoseconds>((event.factor - 1) * (hands_.now() - *step_began_)));
    case Kind::Delay:
      if (event.step && step != *event.step) return;
      tell(event, step, "waits");
      return hands_.sleep(event.delay);
  }
}

void Chaos::tell(Event& event, std::int64_t step, const std::string& what) {
  if (std::exchange(event.told, true)) return;
  log(LogLevel::Warn, "chaos: rank " + std::to_string(event.rank) + " " + what + " at step " + std::to_string(step) +
                          " (" + event.text + ")");
}

}  // namespace tutti::comm
