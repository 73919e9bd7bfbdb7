// Parses host files in the syntax of mpirun.
#include "launch/hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "base/error.h"

namespace tessera::launch {
namespace {

constexpr int kMostSlots = 10'000;

// Checks a host name. It becomes part of mpirun's command line, where a leading '-' or a comma
// would have another meaning.
void check_name(const std::string& name, const std::string& at) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  if (name.empty() || name[0] == '-' || !std::all_of(name.begin(), name.end(), plain))
    throw Error("{}: '{}' is not a host name (letters, digits, '.', '-' and '_')", at, name);
}

int read_slots(std::string_view text, const std::string& at) {
  int n = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (wrong != std::errc() || end != text.data() + text.size() || n < 1 || n > kMostSlots)
    throw Error("{}: slots = '{}', expected an integer from 1 to {}", at, text, kMostSlots);
  return n;
}

// Reads a line. If it has both "n01:4" and "slots=4", the last one counts. mpirun's max_slots is
// ignored.
Host read_host(const std::string& line, const std::string& at) {
  std::istringstream words(line);
  Host host;
  std::string word;
  words >> host.name;
  if (const size_t colon = host.name.find(':'); colon != std::string::npos) {
    host.slots = read_slots(std::string_view(host.name).substr(colon + 1), at);
    host.name.resize(colon);
  }
  check_name(host.name, at);
  while (words >> word) {
    if (word.starts_with("slots=")) {
      host.slots = read_slots(std::string_view(word).substr(6), at);
    } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
      throw Error("{}: unknown entry '{}', expected a line such as 'n01 slots=4'", at, word);
    }
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, const std::string& source) {
  std::vector<Host> out;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    // A comment runs from '#' to the end of the line.
    line.resize(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = fmt::format("{}:{}", source, number);
    Host host = read_host(line, at);
    const auto known =
        std::find_if(out.begin(), out.end(), [&](const Host& h) { return h.name == host.name; });
    if (known == out.end())
      out.push_back(std::move(host));
    else
      known->slots += host.slots;
  }
  if (out.empty()) throw Error("{}: no hosts, expected lines such as 'n01 slots=4'", source);
  return out;
}

int slots(std::span<const Host> hosts) {
  int n = 0;
  for (const Host& h : hosts) n += h.slots;
  return n;
}

std::string host_list(std::span<const Host> hosts) {
  std::string out;
  for (const Host& h : hosts)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", h.name, h.slots);
  return out;
}

size_t host_of(std::span<const Host> hosts, int rank) {
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (rank < hosts[i].slots) return i;
    rank -= hosts[i].slots;
  }
  return hosts.size() - 1;  // more ranks than slots
}

}  // namespace tessera::launch
