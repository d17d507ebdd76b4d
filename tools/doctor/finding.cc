#include <tutti/comm/base/format.h>
#include <tutti/tools/doctor/checks.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::doctor {

// The first one stands for words that are unknown.
NLOHMANN_JSON_SERIALIZE_ENUM(Verdict, {{Verdict::Fail, "fail"}, {Verdict::Warn, "warn"}, {Verdict::Ok, "ok"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, what, value, verdict, fix, host)

namespace {

// A reader looks for what is wrong: that stands out.
const char* mark(Verdict verdict) {
  return verdict == Verdict::Ok ? "  ok    " : verdict == Verdict::Warn ? "  WARN  " : "  FAIL  ";
}

std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

Finding warned_if(bool wrong, const std::string& what, const std::string& value, const std::string& fix) {
  return {what, value, wrong ? Verdict::Warn : Verdict::Ok, wrong ? fix : ""};
}

Verdict worst(const Findings& findings) {
  Verdict result = Verdict::Ok;
  for (const Finding& finding : findings) result = std::max(result, finding.verdict);
  return result;
}

std::string as_text(const Findings& findings) {
  std::string text;
  std::map<Verdict, std::size_t> counts;
  std::string host, last_fix;
  for (const Finding& finding : findings) {
    if (finding.host != host) text += (host = finding.host) + "\n";
    ++counts[finding.verdict];
    text += comm::format("%s%-24s  %s\n", mark(finding.verdict), finding.what.c_str(), finding.value.c_str());
    if (!finding.fix.empty() && finding.fix != last_fix) text += "        -> " + finding.fix + "\n";
    last_fix = finding.fix;
  }
  return text + counted(counts[Verdict::Ok], "thing is", "things are") + " fine, " +
         counted(counts[Verdict::Warn], "warning", "warnings") + ", " +
         counted(counts[Verdict::Fail], "failure", "failures") + "\n";
}

std::string as_json(const Findings& findings) {
  const nlohmann::json all{{"verdict", worst(findings)}, {"findings", findings}};
  // Host names and the like are bytes from outside.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

Findings from_json(const std::string& text) {
  try {
    return nlohmann::json::parse(text).at("findings").get<Findings>();
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("not the findings of tutti doctor: ") + error.what());
  }
}

}  // namespace tutti::doctor
