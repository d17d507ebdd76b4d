// main() of a student's own build: forms the group that the launcher describes, and times the solution's functions.

#include <tutti/tools/labs/real/group_ranks.h>
#include <tutti/tools/labs/real/timing.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

namespace tutti::labs {
namespace {

struct Options {
  TimingOptions timing;
  std::string json;
};

constexpr char kUsage[] =
    "usage: tutti run -n RANKS -- PROGRAM [--max-bytes N] [--repeat N] [--json FILE]\n"
    "Times the functions of this lab on real ranks, beside the library's.\n";

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + " is no option, or lacks its value");
    const std::string value = argv[++i];
    if (name == "--json") {
      options.json = value;
      continue;
    }
    char* end = nullptr;
    const long number = std::strtol(value.c_str(), &end, 10);
    if (*end != '\0' || number < 1 || number > (1L << 32)) {
      throw std::invalid_argument(name + " takes a number from 1 on, not '" + value + "'");
    }
    if (name == "--max-bytes") {
      options.timing.max_bytes = static_cast<std::size_t>(number);
    } else if (name == "--repeat" && number <= 100000) {
      options.timing.repetitions = static_cast<int>(number);
    } else {
      throw std::invalid_argument("there is no option " + name + " " + value);
    }
  }
  return options;
}

void print_collective(const std::string& function, const std::vector<CollectiveTime>& times,
                      nlohmann::ordered_json& json) {
  std::printf("\n%s\n%12s %14s %14s %8s\n", function.c_str(), "bytes", "yours/us", "library/us", "ratio");
  for (const CollectiveTime& time : times) {
    std::printf("%12zu %14.2f %14.2f %8.2f%s\n", time.bytes, time.seconds * 1e6, time.library_seconds * 1e6, time.ratio,
                time.is_right ? "" : "   WRONG RESULT");
    json["results"].push_back({{"function", function},
                               {"bytes", time.bytes},
                               {"seconds", time.seconds},
                               {"library_seconds", time.library_seconds},
                               {"ratio", time.ratio},
                               {"right", time.is_right}});
  }
}

void print_line(const char* whose, const FittedLine& line) {
  char beta[64] = "beta too small to be seen in these lengths";
  if (line.beta > 0)
    std::snprintf(beta, sizeof beta, "beta = %.4f ns/byte (%.2f GB/s)", line.beta * 1e9, 1e-9 / line.beta);
  std::printf("%s: alpha = %.2f us, %s; off by %.0f %% at most\n", whose, line.alpha * 1e6, beta,
              100 * line.worst_error);
}

void print_messages(const MessageTimes& times, nlohmann::ordered_json& json) {
  std::printf("\nmessages between ranks 0 and 1, one way\n%12s %14s %14s\n", "bytes", "yours/us", "ours/us");
  for (std::size_t i = 0; i < times.measured.size(); ++i) {
    std::printf("%12.0f %14.2f %14.2f\n", times.measured[i].bytes, times.measured[i].seconds * 1e6,
                times.library_measured[i].seconds * 1e6);
    json["messages"].push_back({{"bytes", times.measured[i].bytes},
                                {"seconds", times.measured[i].seconds},
                                {"our_seconds", times.library_measured[i].seconds}});
  }
  print_line("line through yours", times.line);
  print_line("line through ours ", times.library_line);
  json["alpha"] = times.line.alpha;
  json["beta"] = times.line.beta;
}

int run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  const auto group = comm::ProcessGroup::connect(comm::World::detect());
  GroupRanks ranks(*group);
  std::set<std::string> functions;
  for (const auto* entry = detail::registrations; entry != nullptr; entry = entry->next)
    functions.insert(entry->function);
  nlohmann::ordered_json json{{"ranks", ranks.world_size()}, {"transport", group->transport_name()}};
  const bool speaks = ranks.rank() == 0;
  if (speaks) std::printf("%d ranks, %s\n", ranks.world_size(), group->transport_name().c_str());
  bool all_right = true;
  for (const std::string& function : functions) {
    if (is_timed_collective(function)) {
      const auto times = time_collective(function, *group, ranks, options.timing);
      for (const CollectiveTime& time : times) all_right = all_right && time.is_right;
      if (speaks) print_collective(function, times, json);
    } else if (function == "message_seconds") {
      if (ranks.world_size() < 2) throw std::invalid_argument("messages need two ranks: tutti run -n 2");
      const MessageTimes times = time_messages(*group, ranks, options.timing);
      if (speaks) print_messages(times, json);
    } else if (speaks) {
      std::printf("\n%s: nothing to be timed here; tutti lab check grades it\n", function.c_str());
    }
  }
  if (speaks && !options.json.empty()) {
    std::ofstream file(options.json);
    file << json.dump(1) << "\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
  }
  group->shutdown();
  return all_right ? 0 : 1;
}

}  // namespace
}  // namespace tutti::labs

int main(int argc, char** argv) {
  try {
    return tutti::labs::run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n%s", argv[0], error.what(), tutti::labs::kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
