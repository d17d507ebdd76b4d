#include <tutti/tools/examples/example.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti::examples {
namespace {

std::string help(const char* program, const std::vector<Option>& options) {
  std::string text = std::string("usage: tutti run -n RANKS ") + program + (options.empty() ? "" : " [options]") + "\n";
  for (const Option& option : options) {
    std::string name = std::string(option.name) + " N";
    name.resize(std::max<std::size_t>(name.size(), 20), ' ');
    text += "  " + name + option.meaning + " (default " + std::to_string(option.value) + ")\n";
  }
  return text;
}

/// Throws std::invalid_argument saying what is wrong.
void read_options(int argc, char** argv, const std::vector<Option>& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view word = argv[i];
    const auto option = std::find_if(options.begin(), options.end(), [&](const Option& o) { return word == o.name; });
    if (option == options.end()) throw std::invalid_argument("unknown option " + std::string(word));
    const std::string_view text = i + 1 < argc ? argv[i + 1] : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), option->value);
    if (error != std::errc{} || end != text.data() + text.size()) {
      throw std::invalid_argument(std::string(word) + " needs a number, got '" + std::string(text) + "'");
    }
  }
}

}  // namespace

int run(int argc, char** argv, const std::vector<Option>& options,
        const std::function<void(comm::ProcessGroup& group)>& body) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a line is seen when it is written, in a pipe too
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::fputs(help(argv[0], options).c_str(), stdout);
    return 0;
  }
  try {
    read_options(argc, argv, options);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n%s", argv[0], error.what(), help(argv[0], options).c_str());
    return 2;
  }
  std::string who = argv[0];
  std::unique_ptr<comm::ProcessGroup> group;
  try {
    const comm::World world = comm::World::detect();
    who = "rank " + std::to_string(world.rank);
    group = comm::ProcessGroup::connect(world);
    body(*group);
    group->shutdown();  // waits for the others: an orderly end of all ranks
    return 0;
  } catch (const std::exception& error) {
    if (group != nullptr) group->abort(error.what());
    std::fprintf(stderr, "%s: %s\n", who.c_str(), error.what());
    return 1;
  }
}

}  // namespace tutti::examples
