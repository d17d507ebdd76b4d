#include <tutti/tools/examples/example.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

namespace tutti::examples {

int run(int argc, char** argv, const std::vector<Option>& options,
        const std::function<void(comm::ProcessGroup& group)>& body) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a line is seen when it is written, in a pipe too
  CLI::App app("Start it on several ranks: tutti run -n RANKS " + std::string(argv[0]));
  for (const Option& option : options) app.add_option(option.name, option.value, option.meaning)->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help; or what is wrong is said
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
