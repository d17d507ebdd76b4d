// Pieces of HTML and SVG: texts that cannot break out of them, and numbers as people read them. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::trainer::page {

/// For text and for attributes in quotes: & < > " ' become entities, control characters and bytes that are no UTF-8
/// become U+FFFD.
std::string escaped(std::string_view text);

/// At most `digits` significant digits, without trailing zeros: "0.0123", "1.5e-06".
std::string number(double value, int digits = 4);

/// For coordinates: two decimals at most.
std::string coordinate(double value);

/// "60,000".
std::string with_commas(std::int64_t value);

/// "1.25 ms", "3 min 20 s".
std::string duration(double seconds);

/// "155 KiB".
std::string bytes(double nbytes);

/// "97.05 %".
std::string percent(double share, int decimals = 1);

}  // namespace tutti::trainer::page
