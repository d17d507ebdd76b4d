// Ranks that are processes of their own and share a card.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tensor/device.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

class DeviceProcesses : public testing::Test {
 protected:
  DeviceProcesses() { write_small_mnist(folder_ / "data", 96, 50); }

  test::ProcessesOptions ranks(int count, const std::string& device, int epochs) const {
    return {.command = {TUTTI_DEVICE_TRAIN, (folder_ / "data").string(), device, std::to_string(epochs),
                        (folder_ / "report.json").string()},
            .count = count,
            .environment = {"TUTTI_EMULATOR_MEMORY=256", "TUTTI_DEVICE_COMM=staged"}};
  }

  double train_loss_of(int count, const std::string& device) const {
    test::Processes processes(ranks(count, device, 1));
    for (int rank = 0; rank < count; ++rank) {
      EXPECT_EQ(processes.wait(rank), (test::ExitStatus{false, 0})) << processes.err(rank);
    }
    return nlohmann::json::parse(read_whole_file(folder_ / "report.json"))["epochs"][0]["train_loss"];
  }

  TemporaryFolder folder_;
};

// By "staged" also where each has a card of its own: NCCL, which would be chosen, knows nothing of emulated ones.
TEST_F(DeviceProcesses, TwoThatShareACardTrainAsTheCpuDoes) {
  const double on_cpu = train_loss_of(2, "cpu");
  EXPECT_NEAR(train_loss_of(2, "cuda:0"), on_cpu, 1e-3 * on_cpu);
  EXPECT_NEAR(train_loss_of(2, "cuda"), on_cpu, 1e-3 * on_cpu);  // a card each
}

TEST_F(DeviceProcesses, ADeviceThatIsNotThereIsRefused) {
  test::Processes processes(ranks(1, "cuda:7", 1));
  EXPECT_EQ(processes.wait(0), (test::ExitStatus{false, 2}));
  EXPECT_NE(processes.err(0).find("--device cuda:7: there are " + std::to_string(tensor::cuda_device_count())),
            std::string::npos)
      << processes.err(0);
}

TEST_F(DeviceProcesses, AKilledRankIsNamedByTheOneThatWaitsForIt) {
  test::Processes processes(ranks(2, "cuda:0", 100000));
  ASSERT_TRUE(processes.wait_for_output(0, "epoch 1/")) << processes.err(0);
  processes.kill(1, SIGKILL);
  const auto end = processes.wait(0);
  ASSERT_TRUE(end.has_value()) << "rank 0 hangs";
  EXPECT_EQ(*end, (test::ExitStatus{false, 1}));
  EXPECT_NE(processes.err(0).find("lost rank 1"), std::string::npos) << processes.err(0);
}

}  // namespace
}  // namespace tutti::trainer
