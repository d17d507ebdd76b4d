#include <tutti/tools/labs/answers.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <locale>
#include <sstream>
#include <system_error>

namespace tutti::labs {
namespace {

constexpr std::uintmax_t kLongest = 1 << 20;

std::string trimmed(std::string_view text) {
  const char* blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(blanks) - begin + 1));
}

}  // namespace

Answers read_answers(std::string_view text) {
  Answers answers;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view bare = line.substr(0, line.find('#'));
    const std::size_t colon = bare.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string value = trimmed(bare.substr(colon + 1));
    if (!value.empty()) answers[trimmed(bare.substr(0, colon))] = value;
  }
  return answers;
}

std::optional<double> number_of(const std::string& answer) {
  std::string text = answer;
  std::replace(text.begin(), text.end(), ',', '.');
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  double value = 0;
  if (!(in >> value) || !std::isfinite(value)) return std::nullopt;
  std::string rest;
  std::getline(in, rest);
  if (rest.find_first_of("0123456789") != std::string::npos) return std::nullopt;
  return value;
}

std::optional<std::string> read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  if (std::filesystem::file_size(file, error) > kLongest || error) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace tutti::labs
