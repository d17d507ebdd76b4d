// main() of the operation suite on the emulated device (tests/support/cuda_emulator).
#include <gtest/gtest.h>

#include "../support.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tutti::tensor::test::test_device() = {tutti::tensor::Device::Kind::Cuda, 0};
  return RUN_ALL_TESTS();
}
