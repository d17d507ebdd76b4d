#include <tutti/tests/trainer/small_run.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tutti::trainer {

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int number_from_environment(const char* name, int fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

test::Finished ended(test::ExitStatus status, test::Finished finished, std::source_location where) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "ended");
  EXPECT_EQ(finished.status, status) << finished.out << finished.err;
  return finished;
}

void TuttiCommand::expect_refusals(const std::vector<Refused>& cases) const {
  for (const Refused& refused : cases) {
    SCOPED_TRACE(refused.expected);
    const test::Finished done =
        ended({.by_signal = false, .code = refused.status}, run(joined({TUTTI_PROGRAM}, refused.words)));
    test::expect_parts(done.err, {refused.expected});
    EXPECT_EQ(done.out, "");
    EXPECT_LE(std::count(done.err.begin(), done.err.end(), '\n'), 2) << done.err;  // with "Run ... --help"
  }
}

void TuttiCommand::expect_results_named_generated(const std::string& out, const std::string& mark) {
  std::istringstream lines(out);
  int results = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("train loss") == std::string::npos && line.find("final test") == std::string::npos) continue;
    ++results;
    EXPECT_NE(line.find(mark), std::string::npos) << line;
  }
  EXPECT_EQ(results, 2) << out;
}

SmallRun::Outcome SmallRun::outcome(const std::string& name) const {
  const nlohmann::json report = nlohmann::json::parse(read_whole_file(folder_ / name));
  Outcome outcome{.parameter_sha256 = report.at("parameter_sha256").get<std::string>(), .epochs = {}};
  for (const auto& epoch : report.at("epochs")) {
    outcome.epochs.push_back({epoch.at("train_loss").get<double>(), epoch.at("test_loss").get<double>(),
                              epoch.at("test_accuracy").get<double>()});
  }
  return outcome;
}

SmallRun::Outcome SmallRun::uninterrupted(int epochs, const Words& more, int batch_size) const {
  const test::Finished done =
      ended(kDone,
            run(joined(command({"--epochs", std::to_string(epochs), "--json", path("whole.json")}, batch_size), more)));
  return outcome("whole.json");
}

void SmallRun::expect_equal(const Outcome& run, const Outcome& whole) {
  EXPECT_EQ(run.parameter_sha256, whole.parameter_sha256);
  EXPECT_EQ(run.epochs, whole.epochs);
}

std::map<std::string, pid_t> SmallRun::workers_of(pid_t launcher) {
  std::map<std::string, pid_t> workers;
  std::ifstream children("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
  for (pid_t pid = 0; children >> pid;) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    for (std::string entry; std::getline(file, entry, '\0');) {
      if (entry.starts_with("TUTTI_WORKER=")) workers[entry.substr(13)] = pid;
    }
  }
  return workers;
}

}  // namespace tutti::trainer
