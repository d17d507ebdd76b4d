#include <tutti/tools/labs/scaling/page.h>
#include <tutti/trainer/report/page/html.h>

#include <algorithm>
#include <cmath>

namespace tutti::labs::scaling {
namespace {

using trainer::page::coordinate;
using trainer::page::duration;
using trainer::page::escaped;
using trainer::page::number;

constexpr const char* kParts[] = {"compute", "waiting for others", "the rest: start, data, evaluation"};

std::string bar(double share, int colour) {
  return "<span class=\"bar s" + std::to_string(colour) + "\" style=\"width:" + coordinate(100 * std::max(0.0, share)) +
         "%\"></span>";
}

std::string legend() {
  std::string items;
  for (int i = 0; i < 3; ++i) {
    items += "<li><span class=\"key box s" + std::to_string(i) + "\"></span>" + kParts[i] + "</li>";
  }
  return "<ul class=\"legend\">" + items + "</ul>";
}

std::string times_table(const Results& results, const Model& model) {
  double longest = 0;
  for (const Row& row : results.rows) longest = std::max(longest, row.median().seconds);
  std::string rows =
      "<tr><th>layout</th><th>median</th><th>range</th><th>compute</th><th>waiting</th><th>rest</th><th>model</th>"
      "<th class=\"wide\">where the time goes</th></tr>";
  for (const Row& row : results.rows) {
    const Timing run = row.median();
    const Features features = features_of(row.layout, static_cast<double>(run.steps), results.cores);
    rows += "<tr><th scope=\"row\">" + escaped(row.layout.name()) + "</th><td>" + duration(run.seconds) + "</td><td>" +
            number(row.fastest(), 3) + " to " + number(row.slowest(), 3) + " s</td><td>" + duration(run.compute) +
            "</td><td>" + duration(run.waiting) + "</td><td>" + duration(run.rest()) + "</td><td>" +
            duration(model.seconds(features)) + "</td><td class=\"wide\">" + bar(run.compute / longest, 0) +
            bar(run.waiting / longest, 1) + bar(run.rest() / longest, 2) + "</td></tr>";
  }
  return legend() + "<div class=\"scroll\"><table class=\"plain bars\">" + rows + "</table></div>";
}

std::string model_text(const Results& results, const Model& model) {
  return "<p><b>t = " + number(model.fixed, 4) + " s + " + number(model.step * 1e6, 4) + " &micro;s &times; work + " +
         number(model.round * 1e6, 4) +
         " &micro;s &times; rounds</b></p><p>work: steps of a rank, times 1 on a core of "
         "its own, 1 / threads on several, ranks / cores where ranks share the " +
         std::to_string(results.cores) +
         " cores. rounds: steps of a rank, times &lceil;lg ranks&rceil;. The model is off by " +
         number(100 * model.worst_error, 3) +
         " % at most; where that is much, something happens that it does not know: look at the parts above.</p>";
}

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  return "<section id=\"" + id + "\"><h2>" + title + "</h2>" + body + "</section>\n";
}

}  // namespace

std::string page_of(const Results& results, const Model& model) {
  const std::string what = escaped(results.plan.model) + " on MNIST" +
                           (results.generated_data ? " (generated digits)" : "") + ", " +
                           std::to_string(results.plan.epochs) + (results.plan.epochs == 1 ? " epoch, " : " epochs, ") +
                           std::to_string(results.plan.batch_size) + " samples a step on each rank, " +
                           std::to_string(results.cores) + " cores";
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Scaling</title><link "
         "rel=\"icon\" href=\"data:,\"><style>" +
         std::string(trainer::page::kStyle) + "</style></head><body><main><header><h1>Scaling</h1><p>" + what +
         "</p></header>\n" + section("times", "Layouts (ranks &times; threads)", times_table(results, model)) +
         section("model", "The fitted model", model_text(results, model)) + "</main></body></html>\n";
}

}  // namespace tutti::labs::scaling
