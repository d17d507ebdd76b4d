// The parts of the page; each is empty, or says so, where the run has nothing for it. Pure functions.
#pragma once

#include <tutti/trainer/report/run_data.h>

#include <string>

namespace tutti::trainer::page {

std::string curves_section(const RunData& run);
std::string confusion_section(const RunData& run);
std::string ranks_section(const RunData& run);
std::string buckets_section(const RunData& run);
std::string timeline_section(const RunData& run);

/// <section id="ID"><h2>TITLE</h2>BODY</section>
std::string section(const std::string& id, const std::string& title, const std::string& body);

/// A sentence in the place of something that is not there.
std::string absent(const std::string& sentence);

extern const char kStyle[];

}  // namespace tutti::trainer::page
