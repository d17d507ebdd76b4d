#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/scaling/results.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace tutti::labs::scaling {
namespace {

constexpr int kMostLayouts = 24, kMostRanks = 256, kMostThreads = 256;

int number_in(const std::string& text, const std::string& what, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    throw std::runtime_error(what + " must be a whole number from " + std::to_string(least) + " to " +
                             std::to_string(most) + ", not '" + text + "'");
  }
  return value;
}

bool is_plain(const std::string& text) {
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:,") ==
         std::string::npos;
}

Layout layout_of(const std::string& line) {
  std::istringstream words(line);
  std::string numbers, extra;
  Layout layout;
  words >> numbers >> layout.hosts;
  const std::size_t cross = numbers.find('x');
  if (cross == std::string::npos || words >> extra || !is_plain(layout.hosts)) {
    throw std::runtime_error("'" + line +
                             "' is no layout: RANKSxTHREADS, and hosts as `tutti run -H` takes them, if any");
  }
  layout.ranks = number_in(numbers.substr(0, cross), "the number of ranks", 1, kMostRanks);
  layout.threads = number_in(numbers.substr(cross + 1), "the number of threads", 1, kMostThreads);
  return layout;
}

void take_setting(const std::string& name, const std::string& value, Plan& plan) {
  if (name == "model") {
    if (value != "mlp" && value != "autoencoder" && value != "lenet5" && value != "cnn") {
      throw std::runtime_error("model is mlp, autoencoder, lenet5 or cnn, not '" + value + "'");
    }
    plan.model = value;
  } else if (name == "epochs") {
    plan.epochs = number_in(value, name, 1, 100);
  } else if (name == "batch_size") {
    plan.batch_size = number_in(value, name, 1, 10000);
  } else if (name == "repeats") {
    plan.repeats = number_in(value, name, 1, 20);
  } else if (name == "data") {
    plan.data = value;
  } else {
    throw std::runtime_error("'" + name + "' is none of model, epochs, batch_size, repeats and data");
  }
}

}  // namespace

std::string Layout::name() const {
  return std::to_string(ranks) + "x" + std::to_string(threads) + (hosts.empty() ? "" : " " + hosts);
}

int Layout::most_on_a_host() const {
  if (hosts.empty()) return ranks;
  int most = 1, sum = 0;
  std::istringstream parts(hosts);
  for (std::string host; std::getline(parts, host, ',');) {
    const std::size_t colon = host.find(':');
    const int slots = colon == std::string::npos ? 1 : std::atoi(host.c_str() + colon + 1);
    most = std::max(most, std::min(slots, ranks - sum));
    sum += slots;
  }
  return most;
}

Timing Row::median() const {
  std::vector<Timing> sorted = runs;
  std::sort(sorted.begin(), sorted.end(), [](const Timing& a, const Timing& b) { return a.seconds < b.seconds; });
  return sorted.empty() ? Timing{} : sorted[(sorted.size() - 1) / 2];
}

double Row::fastest() const {
  double least = runs.empty() ? 0 : runs[0].seconds;
  for (const Timing& run : runs) least = std::min(least, run.seconds);
  return least;
}

double Row::slowest() const {
  double most = 0;
  for (const Timing& run : runs) most = std::max(most, run.seconds);
  return most;
}

Plan read_plan(const std::filesystem::path& file) {
  const auto text = read_text(file);
  if (!text) throw std::runtime_error("there is no " + file.filename().string() + " in the folder");
  Plan plan;
  plan.text = *text;
  std::istringstream in(*text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    try {
      const Answers setting = line.find(": ") == std::string::npos ? Answers{} : read_answers(line);
      if (setting.empty()) {
        plan.layouts.push_back(layout_of(line));
      } else {
        take_setting(setting.begin()->first, setting.begin()->second, plan);
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(file.filename().string() + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (plan.layouts.size() > kMostLayouts) {
    throw std::runtime_error(file.filename().string() + " has more than " + std::to_string(kMostLayouts) + " layouts");
  }
  return plan;
}

std::string to_json(const Results& results) {
  nlohmann::ordered_json json;
  json["cores"] = results.cores;
  json["generated_data"] = results.generated_data;
  json["model"] = results.plan.model;
  json["epochs"] = results.plan.epochs;
  json["batch_size"] = results.plan.batch_size;
  json["layouts_txt"] = results.plan.text;
  json["layouts"] = nlohmann::ordered_json::array();
  for (const Row& row : results.rows) {
    nlohmann::ordered_json one{
        {"ranks", row.layout.ranks}, {"threads", row.layout.threads}, {"hosts", row.layout.hosts}};
    for (const Timing& run : row.runs) {
      one["runs"].push_back({{"seconds", run.seconds},
                             {"compute_seconds", run.compute},
                             {"waiting_seconds", run.waiting},
                             {"rest_seconds", run.rest()},
                             {"steps", run.steps}});
    }
    json["layouts"].push_back(std::move(one));
  }
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Results from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Results results;
    json.at("cores").get_to(results.cores);
    json.at("generated_data").get_to(results.generated_data);
    json.at("model").get_to(results.plan.model);
    json.at("epochs").get_to(results.plan.epochs);
    json.at("batch_size").get_to(results.plan.batch_size);
    json.at("layouts_txt").get_to(results.plan.text);
    for (const auto& one : json.at("layouts")) {
      Row row;
      one.at("ranks").get_to(row.layout.ranks);
      one.at("threads").get_to(row.layout.threads);
      one.at("hosts").get_to(row.layout.hosts);
      for (const auto& run : one.at("runs")) {
        row.runs.push_back({run.at("seconds"), run.at("compute_seconds"), run.at("waiting_seconds"), run.at("steps")});
      }
      if (row.runs.empty() || row.layout.ranks < 1 || row.layout.threads < 1)
        throw std::runtime_error("a row is empty");
      results.plan.layouts.push_back(row.layout);
      results.rows.push_back(std::move(row));
    }
    return results;
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("results.json cannot be read (") + error.what() +
                             "); delete it, and the layouts are measured again");
  }
}

}  // namespace tutti::labs::scaling
