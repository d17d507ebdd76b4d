// Pieces of HTML and SVG: texts that cannot break out of them, numbers as people read them, and the files beside this
// one, which CMake embeds (page_files.cc.in). Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace tutti::trainer::page {

extern const char kPage[];    // page.html: the frame of a run's page
extern const char kScript[];  // page.js: draws it
extern const char kStyle[];   // style.css

/// For text and for attributes in quotes: & < > " ' become entities, control characters and bytes that are no UTF-8
/// become U+FFFD.
std::string escaped(std::string_view text);

/// At most `digits` significant digits, without trailing zeros: "0.0123", "1.5e-06".
std::string number(double value, int digits = 4);

/// For coordinates: two decimals at most.
std::string coordinate(double value);

/// "1.25 ms", "3 min 20 s".
std::string duration(double seconds);

/// "155 KiB".
std::string bytes(double nbytes);

}  // namespace tutti::trainer::page
