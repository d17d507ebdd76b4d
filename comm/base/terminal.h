// What a live line needs to know of the terminal that it is shown on. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::comm {

/// Columns of the terminal behind the descriptor; 80 where it does not tell. 0: it is no terminal.
std::size_t terminal_columns(int fd);

/// The beginning of `text` that stays within one line of so many columns. Parts that two spaces divide are left out
/// whole; a first part that is too long is cut. A character of UTF-8 counts as one column.
std::string_view fitted(std::string_view text, std::size_t columns);

/// Lines of at most so many columns, broken at spaces; a longer word has a line of its own. 0: as it is.
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace tutti::comm
