// The endpoint to which the ranks of a run report: addresses and port of the monitor (`tessera
// launch`), and a token that distinguishes this run from all others. The ranks receive it as one
// environment variable,
//   TESSERA_LAUNCH = token:port:address,address,…
// which the cli module reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::launch {

constexpr const char* kEndpointVariable = "TESSERA_LAUNCH";

struct MonitorEndpoint {
  std::string token;
  int port = 0;
  std::vector<std::string> addresses;  // numeric, tried in this order
};

std::string to_text(const MonitorEndpoint& endpoint);
MonitorEndpoint parse_endpoint(std::string_view text);  // throws Error

std::string new_token();  // 128 random bits, as 32 hexadecimal digits

// Returns the addresses of the interfaces that are up: IPv4 before IPv6, loopback last, and no
// link-local ones. Throws Error if they cannot be read.
std::vector<std::string> own_addresses();

}  // namespace tessera::launch
