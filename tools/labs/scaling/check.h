// The lab `scaling`: measures the layouts of layouts.txt (once: results.json is read again while it belongs to
// layouts.txt), writes results.json and scaling.html, and compares answers.txt with what was measured.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs::scaling {

Report check(const CheckContext& context);

// Diagnoses of this lab.
inline constexpr char kBadPlan[] = "layouts_not_understood";
inline constexpr char kRunFailed[] = "run_failed";
inline constexpr char kFewLayouts[] = "too_few_layouts";
inline constexpr char kNoAnswer[] = "not_started";
inline constexpr char kWrongAnswer[] = "wrong_answer";

}  // namespace tutti::labs::scaling
