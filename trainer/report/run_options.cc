#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/run_options.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using Json = nlohmann::json;

std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_{}[]<>()#+-.!|&").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

OptionTexts run_option_texts(const TrainOptions& options, const OptionTexts& agreed, int world_size, int threads) {
  OptionTexts texts = agreed;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) texts.emplace(name, value);
  };
  const auto add_path = [&](const char* name, const std::filesystem::path& path) {
    add(name, path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string());
  };
  add("ranks", std::to_string(world_size));
  add("threads", std::to_string(threads));
  add("workers", std::to_string(options.workers));
  add("batch-size", std::to_string(options.batch_size));
  if (options.micro_batch_size > 0) add("micro-batch-size", std::to_string(options.micro_batch_size));
  add("epochs", std::to_string(options.epochs));
  add("device", options.device);
  add("first bucket", std::to_string(options.buckets.first_bucket_bytes) + " bytes");
  add("bucket-cap", std::to_string(options.buckets.bucket_cap_bytes) + " bytes");
  add("timeout", std::to_string(options.timeout.count()) + " ms");
  if (options.checkpoint_every > 0) add("checkpoint-every", std::to_string(options.checkpoint_every));
  add("keep-checkpoints", std::to_string(options.keep_checkpoints));
  if (options.shard_optimizer) add("shard-optimizer", "yes");
  if (options.encrypt) add("encrypt", "yes");
  if (options.resume) add("resume", "yes");
  add_path("data folder", options.data);
  add_path("checkpoint-dir", options.checkpoint_dir);
  add_path("json", options.json);
  add_path("trace", options.trace);
  add_path("test-list", options.test_list);
  if (options.skip_bad_images) add("skip-bad-images", "yes");
  return texts;
}

std::string option_texts_to_json(const OptionTexts& texts) {
  return Json(texts).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

OptionTexts read_option_texts(const std::filesystem::path& file) {
  try {
    return Json::parse(read_whole_file(file)).get<OptionTexts>();
  } catch (const Json::exception& error) {
    throw std::runtime_error(file.string() + " is not a JSON object of texts: " + error.what());
  }
}

std::string option_texts_to_markdown(const OptionTexts& texts) {
  std::string table = "| option | value |\n| --- | --- |\n";
  for (const auto& [name, value] : texts) table += "| " + cell(name) + " | " + cell(value) + " |\n";
  return table;
}

}  // namespace tutti::trainer
