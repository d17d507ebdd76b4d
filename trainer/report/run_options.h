// What a run was asked to do, as texts: for options.json, the page, TensorBoard and comparisons.
#pragma once

#include <tutti/trainer/options.h>

#include <filesystem>
#include <string>

namespace tutti::trainer {

/// A flat JSON object; bytes that are no UTF-8 are replaced.
std::string option_texts_to_json(const OptionTexts& texts);

/// Throws std::runtime_error naming the file.
OptionTexts read_option_texts(const std::filesystem::path& file);

/// A table in Markdown, whose cells are escaped.
std::string option_texts_to_markdown(const OptionTexts& texts);

}  // namespace tutti::trainer
