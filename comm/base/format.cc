#include <locale.h>
#include <tutti/comm/base/format.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace tutti::comm {
namespace {

// The C locale, for the calling thread only.
class CLocale {
 public:
  CLocale() : own_(newlocale(LC_ALL_MASK, "C", nullptr)), before_(uselocale(own_)) {}
  ~CLocale() {
    uselocale(before_);
    freelocale(own_);
  }
  CLocale(const CLocale&) = delete;
  CLocale& operator=(const CLocale&) = delete;

 private:
  locale_t own_;
  locale_t before_;
};

}  // namespace

std::string hex_digits(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string format(const char* pattern, ...) {
  const CLocale numbers;
  va_list values, again;
  va_start(values, pattern);
  va_copy(again, values);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, pattern, values)) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), pattern, again);
  va_end(again);
  va_end(values);
  text.pop_back();
  return text;
}

std::optional<double> parse_number(const std::string& text) {
  const CLocale numbers;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace tutti::comm
