// What `tutti doctor` says about one thing: what was looked at, what was found, whether it will do, and what to do.
//
// Values; pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::doctor {

enum class Verdict { Ok, Warn, Fail };  // Fail: something that a job needs does not work

struct Finding {
  std::string what;  // "host name", "/dev/shm", "ranks 0 and 2: port"
  std::string value;
  Verdict verdict = Verdict::Ok;
  std::string fix{};   // for a warning or a failure: a command, an option, a line to write somewhere
  std::string host{};  // "" = the host that the report is about
};

using Findings = std::vector<Finding>;

/// "ok", "warn", "fail".
std::string_view name(Verdict verdict);

/// The worst of them; Ok for none.
Verdict worst(const Findings& findings);

/// A line for each finding, its fix below it unless the finding before had the same, grouped by host where there are
/// several; at the end what there is of each verdict.
std::string as_text(const Findings& findings);

/// {"verdict": "warn", "findings": [{"what", "value", "verdict", "fix", "host"}]}.
std::string as_json(const Findings& findings);

/// What as_json() wrote. Throws std::runtime_error for anything else.
Findings from_json(const std::string& text);

}  // namespace tutti::doctor
