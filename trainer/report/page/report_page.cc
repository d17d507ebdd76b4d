#include <openssl/evp.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/page_data.h>
#include <tutti/trainer/report/page/report_page.h>

#include <array>
#include <map>

namespace tutti::trainer {
namespace {

/// As a Content-Security-Policy names a script: the SHA-256 of its text in base64.
std::string policy_hash(const std::string& script) {
  const Sha256::Digest digest = Sha256().add(script).digest();
  std::array<unsigned char, 64> text{};
  const int length = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
  return {text.begin(), text.begin() + length};
}

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
                              {"script hash", policy_hash(page::kScript)},
                              {"data", page::page_data(run)}});
}

}  // namespace tutti::trainer
