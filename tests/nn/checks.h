// What the tests of nn check alike: numbers beside golden ones, and the texts of errors.
#pragma once

#include <gtest/gtest.h>
#include <tutti/nn/module.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::nn::test {

/// The text of the `Expected` that `action` throws.
template <typename Expected = std::invalid_argument>
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// The text of the std::invalid_argument that zeros of this shape cause.
inline std::string input_error(Module& layer, const tensor::Shape& input) {
  return error_of([&] { layer.forward(Variable(Tensor::zeros(input))); });
}

inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << what << "[" << i << "]";
}

}  // namespace tutti::nn::test
