#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/run_options.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using Json = nlohmann::json;

std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_{}[]<>()#+-.!|&").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::string option_texts_to_json(const OptionTexts& texts) {
  return Json(texts).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

OptionTexts read_option_texts(const std::filesystem::path& file) {
  try {
    return Json::parse(read_whole_file(file)).get<OptionTexts>();
  } catch (const Json::exception& error) {
    throw std::runtime_error(file.string() + " is not a JSON object of texts: " + error.what());
  }
}

std::string option_texts_to_markdown(const OptionTexts& texts) {
  std::string table = "| option | value |\n| --- | --- |\n";
  for (const auto& [name, value] : texts) table += "| " + cell(name) + " | " + cell(value) + " |\n";
  return table;
}

}  // namespace tutti::trainer
