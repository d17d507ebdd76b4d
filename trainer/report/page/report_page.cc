#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/page_data.h>
#include <tutti/trainer/report/page/report_page.h>

namespace tutti::trainer {

std::string report_page(const RunData& run) {
  return page::filled(page::kPage, {{"title", page::escaped(page::title_of(run))},
                                    {"style", page::kStyle},
                                    {"script", page::kScript},
                                    {"script hash", Digest().add(page::kScript).base64()},
                                    {"data", page::page_data(run)}});
}

}  // namespace tutti::trainer
