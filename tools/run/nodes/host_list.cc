#include <tutti/tools/run/nodes/host_list.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace tutti::tools {
namespace {

constexpr int kMostSlots = 1 << 16;

int read_slots(std::string_view text, const std::string& where) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMostSlots)
    throw std::invalid_argument(where + " has '" + std::string(text) + "' slots, but must have a number from 1 up");
  return slots;
}

// "host", "host:slots", "[v6]", "[v6]:slots"; a bare IPv6 number has no slots.
HostSlots read_host(const std::string& word, const std::string& where) {
  HostSlots result;
  const std::size_t bracket = word.find(']');
  const std::size_t colon = word.find(':', bracket == std::string::npos ? 0 : bracket);
  const bool bare_v6 = bracket == std::string::npos && std::count(word.begin(), word.end(), ':') > 1;
  if (bare_v6 || colon == std::string::npos) {
    result.host = word;
  } else {
    result.host = word.substr(0, colon);
    result.slots = read_slots(std::string_view(word).substr(colon + 1), where);
  }
  std::erase_if(result.host, [](char c) { return c == '[' || c == ']'; });
  // A name that begins with a dash would be an option of the remote command.
  if (result.host.empty() || result.host.front() == '-')
    throw std::invalid_argument(where + ": '" + word + "' is no host");
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

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) add(hosts, read_host(word, "-H '" + text + "'"));
  if (hosts.empty()) throw std::invalid_argument("-H names no host; write -H node1:2,node2:2");
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
  if (hosts.empty()) throw std::invalid_argument("--hostfile " + name + " names no host");
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  file.peek();  // a folder can be opened, but not be read
  if (!file.is_open() || file.bad()) throw std::invalid_argument("--hostfile " + path + " cannot be read");
  return parse_hostfile(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

}  // namespace tutti::tools
