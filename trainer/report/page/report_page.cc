#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/page_data.h>
#include <tutti/trainer/report/page/report_page.h>

#include <map>

namespace tutti::trainer {
namespace {

/// `frame` with the value of each {{name}} in its place.
std::string filled(std::string_view frame, const std::map<std::string, std::string, std::less<>>& values) {
  std::string html;
  for (auto open = frame.find("{{"); open != std::string_view::npos; open = frame.find("{{")) {
    const auto close = frame.find("}}", open);
    html += frame.substr(0, open);
    html += values.find(frame.substr(open + 2, close - open - 2))->second;
    frame.remove_prefix(close + 2);
  }
  return html.append(frame);
}

}  // namespace

std::string report_page(const RunData& run) {
  return filled(page::kPage, {{"title", page::escaped(page::title_of(run))},
                              {"style", page::kStyle},
                              {"script", page::kScript},
                              {"script hash", Digest().add(page::kScript).base64()},
                              {"data", page::page_data(run)}});
}

}  // namespace tutti::trainer
