// What `tutti plan` and `tutti tune` throw between reading their options and starting work. Caught within the command.
#pragma once

#include <stdexcept>

namespace tutti::tools {

/// A wrong command line; what() is one sentence.
struct WrongUsage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti::tools
