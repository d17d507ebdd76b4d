// DataError: a data set that is missing, damaged or not what its name says.
#pragma once

#include <stdexcept>
#include <string>

namespace tutti::trainer {

/// what() is one sentence: the file, the field, the value found, the value expected, and where it helps what to do.
class DataError : public std::runtime_error {
 public:
  explicit DataError(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace tutti::trainer
