#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/report_page.h>
#include <tutti/trainer/report/page/sections.h>

#include <cmath>

namespace tutti::trainer {
namespace page {

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  return "<section id=\"" + id + "\"><h2>" + title + "</h2>" + body + "</section>\n";
}

std::string absent(const std::string& sentence) { return "<p class=\"absent\">" + sentence + "</p>"; }

}  // namespace page

namespace {

using page::escaped;

/// The folder's own name, also when the path ends in "/" or is ".".
std::string folder_name(const RunData& run) {
  std::error_code error;
  const auto whole = std::filesystem::canonical(run.folder, error);
  return (error ? run.folder : whole).filename().string();
}

std::string title_of(const RunData& run) {
  const std::string model = run.report.model.empty() ? "A run" : run.report.model;
  return model + (run.report.task.empty() ? "" : " on " + run.report.task);
}

std::string tile(const std::string& value, const std::string& name) {
  return "<div class=\"tile\"><b>" + value + "</b><span>" + name + "</span></div>";
}

std::string tiles(const RunData& run) {
  const RunReport& report = run.report;
  std::string html;
  if (report.final_test_accuracy) html += tile(page::percent(*report.final_test_accuracy, 2), "final test accuracy");
  if (!report.epochs.empty()) {
    const EpochReport& last = report.epochs.back();
    if (!report.final_test_accuracy && last.test_accuracy) {
      html += tile(page::percent(*last.test_accuracy, 2), "last test accuracy");
    } else if (!report.final_test_accuracy && last.test_loss) {
      html += tile(page::number(*last.test_loss, 4), "last test loss");
    }
    html += tile(page::number(last.train_loss, 4), "last training loss");
    html += tile(std::to_string(last.epoch), last.epoch == 1 ? "epoch" : "epochs");
  }
  if (!run.finished) return html;
  html += tile(page::duration(report.seconds_training), "of training");
  if (report.samples_per_second > 0) {
    html += tile(page::with_commas(std::llround(report.samples_per_second)), "samples a second");
  }
  return html + tile(std::to_string(report.world_size) + " &times; " + page::with_commas(report.batch_size),
                     report.world_size == 1 ? "rank &times; batch" : "ranks &times; batch");
}

std::string remarks(const RunData& run) {
  if (run.remarks.empty()) return "";
  std::string list;
  for (const std::string& remark : run.remarks) list += "<li>" + escaped(remark) + "</li>";
  return "<div class=\"remarks\">Not everything is here:<ul>" + list + "</ul></div>\n";
}

std::string options_and_log(const RunData& run) {
  std::string rows, lines;
  for (const auto& [name, value] : run.options) {
    rows += "<tr><td>" + escaped(name) + "</td><td>" + escaped(value) + "</td></tr>";
  }
  for (const std::string& line : run.log) lines += escaped(line) + "\n";
  std::string body;
  if (!rows.empty()) {
    body += "<details><summary>Options</summary><table class=\"plain options\"><tr><th>option</th><th>value</th></tr>" +
            rows + "</table></details>";
  }
  if (!lines.empty()) body += "<details><summary>The last lines of the log</summary><pre>" + lines + "</pre></details>";
  if (!run.report.parameter_sha256.empty()) {
    body += "<p class=\"small-text\">sha256 of the final parameters: <code>" + escaped(run.report.parameter_sha256) +
            "</code></p>";
  }
  return body.empty() ? "" : page::section("options", "Options and log", body);
}

}  // namespace

std::string report_page(const RunData& run) {
  const std::string title = escaped(title_of(run));
  const std::string folder = escaped(folder_name(run));
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>" +
      title + " - " + folder + "</title>\n<style>" + page::kStyle + "</style></head>\n<body><main>\n<header><h1>" +
      title + "</h1><p>" + folder;
  if (run.report.generated_data) html += " &middot; trained on generated data, no real pictures";
  html += "</p></header>\n<div class=\"tiles\">" + tiles(run) + "</div>\n" + remarks(run);
  html += page::curves_section(run) + page::confusion_section(run) + page::ranks_section(run) +
          page::buckets_section(run) + page::timeline_section(run) + options_and_log(run);
  return html + "</main></body></html>\n";
}

}  // namespace tutti::trainer
