// `tutti doctor`: looks for what would make a job fail, before the job does.

#include <tutti/comm/base/error.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/doctor/checks.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

namespace tutti::tools {
namespace {

struct DoctorArguments {
  bool json = false;
  double timeout_seconds = 30;
};

void show(const doctor::Findings& findings, bool json) {
  if (findings.empty()) return;
  if (json)
    std::puts(doctor::as_json(findings).c_str());
  else
    std::cout << doctor::as_text(findings) << std::flush;
}

int examine(const DoctorArguments& arguments) {
  doctor::Findings findings = doctor::check_host();
  doctor::Verdict verdict = doctor::worst(findings);
  comm::World world;  // of one, also where check_host() found that it cannot be told
  try {
    world = comm::World::detect();
  } catch (const comm::Error&) {
  }
  if (world.world_size > 1) {
    const std::chrono::milliseconds timeout(static_cast<std::int64_t>(1000 * arguments.timeout_seconds));
    doctor::WorldReport report = doctor::check_world(world, findings, timeout);
    const bool met = report.findings.empty() || report.findings.front().what != "meeting";
    if (met) findings.clear();
    findings.insert(findings.end(), report.findings.begin(), report.findings.end());
    verdict = std::max(verdict, report.verdict);
  }
  show(findings, arguments.json);
  return verdict == doctor::Verdict::Fail ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("doctor", "Look for what would make a job fail: names, ports, limits");
  command->footer(
      "By itself it looks at this host. Started as a job's ranks are (tutti run -n 4 tutti doctor, srun tutti doctor,\n"
      "mpirun tutti doctor) it also looks at what is between them. Exit status: 0 fine, maybe with warnings; 1 "
      "something "
      "would fail.");
  const auto arguments = std::make_shared<DoctorArguments>();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--timeout", arguments->timeout_seconds, "Seconds that the ranks may take to meet")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->callback([arguments, &status] { status = examine(*arguments); });
}

}  // namespace tutti::tools
