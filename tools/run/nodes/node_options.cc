#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/tools/run/nodes/node_options.h>
#include <tutti/tools/run/ranges.h>
#include <wordexp.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace tutti::tools {
namespace {

constexpr std::chrono::seconds kRemoteJoinTimeout{120};
constexpr std::chrono::seconds kPmiAnswer{30};  // of mpiexec's PMI server

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

void read_nnodes(NodeOptions& options, const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto least = parse_number(std::string_view(text).substr(0, colon));
  const auto most = colon == std::string::npos ? least : parse_number(std::string_view(text).substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least)
    refuse("--nnodes is '" + text + "', but must be a number of nodes, or MIN:MAX with 1 <= MIN <= MAX");
  options.min_nodes = *least;
  options.max_nodes = *most;
}

std::uint16_t read_port(const std::string& text, const std::string& option) {
  const auto port = parse_number(text);
  if (!port || *port > 65535) refuse(option + " has port '" + text + "', but ports are 0 to 65535");
  if (*port == 0) refuse(option + " has port 0: agents on several nodes cannot guess which port the first one got");
  return static_cast<std::uint16_t>(*port);
}

struct HostAndNumber {
  std::string host;
  std::optional<std::string> number;  // nothing where there is no colon
};

// "host", "host:number", "[v6]", "user@[v6]:number"; a bare IPv6 number has none. `where` begins texts of errors.
HostAndNumber split_host(const std::string& text, const std::string& where) {
  if (const std::size_t begin = text.find('['); begin != std::string::npos) {
    const std::size_t end = text.find(']', begin);
    if (end == std::string::npos) refuse(where + " has '[' without ']'");
    const std::string host = text.substr(0, begin) + text.substr(begin + 1, end - begin - 1);
    if (end + 1 == text.size()) return {host, std::nullopt};
    if (text[end + 1] != ':') refuse(where + " must read [ADDRESS]:NUMBER");
    return {host, text.substr(end + 2)};
  }
  const std::size_t colon = text.find(':');
  const bool bare_v6 = colon != std::string::npos && text.find(':', colon + 1) != std::string::npos;
  if (bare_v6 || colon == std::string::npos) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

void read_endpoint(NodeOptions& options, const std::string& text) {
  const std::string option = "--rdzv-endpoint '" + text + "'";
  const HostAndNumber endpoint = split_host(text, option);
  options.host = endpoint.host;
  options.port = endpoint.number ? read_port(*endpoint.number, option) : kDynamicPort;
  if (options.host.empty()) refuse(option + " names no host");
}

std::chrono::milliseconds read_seconds(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 0.0) || seconds > 1e6)
    refuse("--rdzv-conf has " + name + "='" + text + "', but a time is a number of seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void read_conf(NodeOptions& options, const std::string& text) {
  // torchrun's names; those without a value here mean things that do not exist here.
  const std::map<std::string, std::chrono::milliseconds*> times{{"join_timeout", &options.join_timeout},
                                                                {"timeout", &options.join_timeout},
                                                                {"last_call_timeout", &options.last_call},
                                                                {"keep_alive_interval", &options.heartbeat},
                                                                {"silence_timeout", &options.silence},
                                                                {"close_timeout", nullptr},
                                                                {"read_timeout", nullptr},
                                                                {"keep_alive_max_attempt", nullptr},
                                                                {"is_host", nullptr},
                                                                {"store_type", nullptr},
                                                                {"use_libuv", nullptr}};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const std::size_t equals = entry.find('=');
    const auto time = times.find(entry.substr(0, equals));
    if (equals == std::string::npos || time == times.end())
      refuse("--rdzv-conf has '" + entry +
             "', but takes join_timeout, last_call_timeout, keep_alive_interval and silence_timeout, each =SECONDS");
    if (time->second != nullptr) *time->second = read_seconds(time->first, entry.substr(equals + 1));
    begin = end + 1;
  }
  if (options.heartbeat.count() < 1) refuse("--rdzv-conf: keep_alive_interval must be above 0");
  if (options.silence < 2 * options.heartbeat)
    refuse("--rdzv-conf: silence_timeout must be at least twice keep_alive_interval");
}

bool is_dynamic(const NodeArguments& arguments) {
  const std::string& backend = arguments.rdzv_backend;
  if (!backend.empty() && backend != "static" && backend != "c10d")
    refuse("--rdzv-backend is '" + backend + "', but must be c10d or static: agents meet at a store of their own");
  return backend == "c10d" || (backend.empty() && !arguments.rdzv_endpoint.empty());
}

constexpr int kMostSlots = 1 << 16;

int read_slots(std::string_view text, const std::string& where) {
  const std::optional<int> slots = parse_number(text);
  if (!slots || *slots < 1 || *slots > kMostSlots)
    refuse(where + " has '" + std::string(text) + "' slots, but must have a number from 1 up");
  return *slots;
}

HostSlots read_host(const std::string& word, const std::string& where) {
  const HostAndNumber parts = split_host(word, where);
  HostSlots result{parts.host, std::nullopt};
  if (parts.number) result.slots = read_slots(*parts.number, where);
  // A name that begins with a dash would be an option of the remote command.
  if (result.host.empty() || result.host.front() == '-') refuse(where + ": '" + word + "' is no host");
  return result;
}

void add(std::vector<HostSlots>& hosts, const HostSlots& host) {
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.host == host.host; });
  if (known == hosts.end()) {
    hosts.push_back(host);
  } else {
    known->slots = known->slots.value_or(1) + host.slots.value_or(1);
  }
}

// What tells the agents of this job step from those of others on the same file system.
std::string job_of(const comm::LaunchedPlace& place, const comm::Environment& environment) {
  std::string job = place.job;
  if (job.empty() && place.pmi_descriptor >= 0)
    job = comm::pmi_job_name(place.pmi_descriptor, comm::Deadline::after(kPmiAnswer));
  if (const auto id = environment("TUTTI_JOB_ID")) job += "-" + *id;
  if (job.empty())
    refuse(place.source +
           ": that does not tell one job from another; set TUTTI_JOB_ID, equal on all nodes, or give --rdzv-endpoint");
  return job;
}

}  // namespace

std::optional<NodeOptions> parse_node_options(const NodeArguments& arguments) {
  NodeOptions options;
  read_nnodes(options, arguments.nnodes);
  read_conf(options, arguments.rdzv_conf);
  const bool dynamic = is_dynamic(arguments);
  options.run_id = arguments.rdzv_id;
  if (options.max_nodes == 1) {
    if (arguments.node_rank.value_or(0) != 0)
      refuse("--node-rank is " + std::to_string(*arguments.node_rank) + ", but --nnodes is 1");
    return std::nullopt;
  }
  if (dynamic) {
    if (arguments.rdzv_endpoint.empty())
      refuse("--nnodes " + arguments.nnodes + " with --rdzv-backend c10d needs --rdzv-endpoint HOST:PORT");
    read_endpoint(options, arguments.rdzv_endpoint);
    return options;
  }
  if (!options.fixed_size())
    refuse("--nnodes " + arguments.nnodes + " needs --rdzv-endpoint HOST:PORT, where the nodes that are there meet");
  const std::string needs = "--nnodes " + arguments.nnodes + " needs ";
  if (!arguments.node_rank)
    refuse(needs + "--node-rank, 0 on the node of --master-addr (or --rdzv-endpoint HOST:PORT)");
  if (*arguments.node_rank < 0 || *arguments.node_rank >= options.max_nodes)
    refuse("--node-rank is " + std::to_string(*arguments.node_rank) + ", but with --nnodes " + arguments.nnodes +
           " it must be 0 to " + std::to_string(options.max_nodes - 1));
  options.node_rank = arguments.node_rank;
  if (!arguments.rdzv_endpoint.empty()) {
    read_endpoint(options, arguments.rdzv_endpoint);
    return options;
  }
  if (!arguments.meeting_file.empty()) {
    options.meeting_file = arguments.meeting_file;
    return options;
  }
  if (arguments.master_addr.empty()) refuse(needs + "--master-addr, an address of node 0 that all nodes can reach");
  options.host = arguments.master_addr;
  options.port =
      arguments.master_port ? read_port(std::to_string(*arguments.master_port), "--master-port") : kStaticPort;
  return options;
}

NodeOptions launched_node_options(const NodeArguments& arguments, int nodes) {
  if (arguments.nnodes != "1" || arguments.node_rank || !arguments.rdzv_endpoint.empty())
    refuse("-H and --hostfile say which nodes there are; leave out --nnodes, --node-rank and --rdzv-endpoint");
  NodeOptions options;
  options.join_timeout = kRemoteJoinTimeout;
  read_conf(options, arguments.rdzv_conf);
  options.min_nodes = options.max_nodes = nodes;
  options.node_rank = 0;
  options.run_id = arguments.rdzv_id;
  return options;
}

std::vector<std::string> split_rsh(const std::string& text) {
  std::vector<std::string> words;
  wordexp_t parts{};
  if (const int error = ::wordexp(text.c_str(), &parts, WRDE_NOCMD); error != 0)
    refuse("--rsh '" + text + "' " +
           (error == WRDE_SYNTAX ? "has a quote that does not end"
                                 : "is no simple command line; quote what a shell would act on"));
  for (std::size_t i = 0; i < parts.we_wordc; ++i) words.emplace_back(parts.we_wordv[i]);
  ::wordfree(&parts);
  if (words.empty()) refuse("--rsh names no command; write --rsh 'ssh -p 2222'");
  return words;
}

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) add(hosts, read_host(word, "-H '" + text + "'"));
  if (hosts.empty()) refuse("-H names no host; write -H node1:2,node2:2");
  return hosts;
}

std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& name) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = name + " line " + std::to_string(++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    HostSlots host = read_host(word, where);
    while (words >> word) {
      if (word.starts_with("slots=")) host.slots = read_slots(std::string_view(word).substr(6), where);
    }
    add(hosts, host);
  }
  if (hosts.empty()) refuse("--hostfile " + name + " names no host");
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  file.peek();  // a folder can be opened, but not be read
  if (!file.is_open() || file.bad()) refuse("--hostfile " + path + " cannot be read");
  return parse_hostfile(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

void ask_scheduler(NodeArguments& nodes, const comm::Environment& environment) {
  if (nodes.node_rank || !nodes.master_addr.empty() || !nodes.rdzv_endpoint.empty() || !nodes.rdzv_backend.empty())
    return;
  const std::optional<int> count = parse_number(nodes.nnodes);
  const std::string chosen = environment("TUTTI_LAUNCHER").value_or("auto");
  if (!count || *count < 2 || chosen == "none" || chosen == "env") return;
  const auto place = comm::find_launcher(chosen, environment).place;
  if (!place) return;
  if (place->world_size != *count)
    refuse("--nnodes is " + nodes.nnodes + ", but " + place->source + " has " + std::to_string(place->world_size) +
           " processes: start one agent on each node (srun --ntasks-per-node 1, mpirun -N 1, mpiexec -ppn 1)");
  nodes.node_rank = place->rank;
  nodes.meeting_file = comm::meeting_path(job_of(*place, environment) + "-agents", environment);
  comm::log(comm::LogLevel::Info, "node " + std::to_string(place->rank) + " of " + nodes.nnodes + " (" + place->source +
                                      "); the agents meet in " + nodes.meeting_file);
}

}  // namespace tutti::tools
