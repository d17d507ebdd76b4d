// main() of tests on a GPU. Where there is none, every test is skipped, and counted as skipped.
#include <gtest/gtest.h>
#include <tutti/tensor/device.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && !tutti::tensor::cuda_available()) {
    std::printf("[  SKIPPED ] %s\n", tutti::tensor::cuda_status().c_str());
    return 0;
  }
  return RUN_ALL_TESTS();
}
