// `tutti report RUN_DIR`: one HTML page of a run.

#include <tutti/tools/commands.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/page/report_page.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

namespace tutti::tools {
namespace {

struct ReportArguments {
  std::filesystem::path run_dir;
  std::filesystem::path output;
  std::filesystem::path trace;
};

int report(const ReportArguments& arguments) {
  const auto output = arguments.output.empty() ? arguments.run_dir / "report.html" : arguments.output;
  trainer::RunData run = trainer::read_run(arguments.run_dir);
  trainer::add_trace(run, arguments.trace);
  trainer::replace_file(output, trainer::report_page(run));
  std::ostream& words = output == "-" ? std::cerr : std::cout;
  for (const std::string& remark : run.remarks) words << "note: " << remark << "\n";
  words << "written to " << output.string() << std::endl;
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("report", "one HTML page of a run: curves, confusion matrix, step times, messages");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("RUN_DIR", arguments->run_dir, "what tutti train had as --run-dir")->required();
  command->add_option("--output", arguments->output, "the file to write [RUN_DIR/report.html]");
  command->add_option("--trace", arguments->trace,
                      "the file that tutti train --trace wrote [as the run's options say]");
  command->callback([arguments, &status] { status = status_of("tutti report", [&] { return report(*arguments); }); });
}

}  // namespace tutti::tools
