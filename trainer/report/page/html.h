// What pages are filled with: texts that cannot break out of HTML, and the files beside this one, which CMake embeds
// (page_files.cc.in). Pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tutti::trainer::page {

extern const char kPage[];    // page.html: the frame of a run's page
extern const char kScript[];  // page.js: draws it
extern const char kStyle[];   // style.css

/// For text and for attributes in quotes: & < > " ' become entities, control characters and bytes that are no UTF-8
/// become U+FFFD.
std::string escaped(std::string_view text);

/// `frame` with the value of each {{name}} in its place. Values are not looked into.
std::string filled(std::string_view frame, const std::map<std::string, std::string, std::less<>>& values);

}  // namespace tutti::trainer::page
