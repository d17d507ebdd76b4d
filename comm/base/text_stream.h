// A stream into a text whose numbers are the same under every locale of the program (format.h).
#pragma once

#include <locale>
#include <sstream>

namespace tutti::comm {

class TextStream : public std::ostringstream {
 public:
  TextStream() { imbue(std::locale::classic()); }
};

}  // namespace tutti::comm
