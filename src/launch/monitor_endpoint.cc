// Finds the addresses at which ranks can reach this process, and encodes them in the environment
// variable that the ranks inherit.
#include "launch/monitor_endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <random>

#include "base/error.h"

namespace tessera::launch {
namespace {

constexpr int kRankOfLoopback = 2;

struct Found {
  int order = 0;  // 0: IPv4, 1: IPv6, 2: loopback
  std::string address;
};

// Reads one interface address. Returns no address if the entry is of another family, or link-local,
// which is only valid together with an interface.
Found read_address(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return {};
  char text[INET6_ADDRSTRLEN] = {};
  const bool loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  if (entry.ifa_addr->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, entry.ifa_addr, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return {loopback ? kRankOfLoopback : 0, text};
  }
  if (entry.ifa_addr->sa_family != AF_INET6) return {};
  sockaddr_in6 in{};
  std::memcpy(&in, entry.ifa_addr, sizeof in);
  if (IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr)) return {};
  inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
  return {loopback ? kRankOfLoopback : 1, text};
}

}  // namespace

std::string to_text(const MonitorEndpoint& endpoint) {
  return fmt::format("{}:{}:{}", endpoint.token, endpoint.port, fmt::join(endpoint.addresses, ","));
}

MonitorEndpoint parse_endpoint(std::string_view text) {
  MonitorEndpoint endpoint;
  const size_t first = text.find(':');
  const size_t second = first == text.npos ? text.npos : text.find(':', first + 1);
  if (second != text.npos) {
    endpoint.token = text.substr(0, first);
    const std::string_view port = text.substr(first + 1, second - first - 1);
    const auto [end, wrong] =
        std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    if (wrong != std::errc() || end != port.data() + port.size()) endpoint.port = 0;
    std::string_view rest = text.substr(second + 1);
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      if (comma > 0) endpoint.addresses.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  if (endpoint.token.empty() || endpoint.port <= 0 || endpoint.port > 65535 ||
      endpoint.addresses.empty())
    throw Error(
        "{} is '{}', expected token:port:address,… as `tessera launch` sets it. Unset it to "
        "run without a monitor",
        kEndpointVariable, text);
  return endpoint;
}

// Returns a new token. It keeps ranks of other runs, and other processes that find the port, from
// being accepted as ranks of this run.
std::string new_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    throw Error("the addresses of this host cannot be read: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Found> found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
    if (Found f = read_address(*i); !f.address.empty()) found.push_back(std::move(f));
  // Stable: addresses of one kind stay in the order of the interfaces.
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.order < b.order; });
  std::vector<std::string> out;
  for (Found& f : found) out.push_back(std::move(f.address));
  return out;
}

}  // namespace tessera::launch
