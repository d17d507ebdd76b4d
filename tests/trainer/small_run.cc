#include <tutti/tests/trainer/small_run.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {

SmallRun::Outcome SmallRun::outcome(const std::string& name) const {
  const nlohmann::json report = nlohmann::json::parse(read_whole_file(folder_ / name));
  Outcome outcome{.parameter_sha256 = report.at("parameter_sha256").get<std::string>(), .epochs = {}};
  for (const auto& epoch : report.at("epochs")) {
    outcome.epochs.push_back({epoch.at("train_loss").get<double>(), epoch.at("test_loss").get<double>(),
                              epoch.at("test_accuracy").get<double>()});
  }
  return outcome;
}

SmallRun::Outcome SmallRun::uninterrupted(int epochs) const {
  const test::Finished done =
      run(command({"--nproc", "2", "--epochs", std::to_string(epochs), "--json", path("whole.json")}));
  EXPECT_EQ(done.status, kDone) << done.err;
  return outcome("whole.json");
}

void SmallRun::expect_equal(const Outcome& run, const Outcome& whole) {
  EXPECT_EQ(run.parameter_sha256, whole.parameter_sha256);
  EXPECT_EQ(run.epochs, whole.epochs);
}

}  // namespace tutti::trainer
