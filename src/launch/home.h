// Where the ranks of a run report: addresses and port of the process that watches them, and a token
// that tells this run from every other. It reaches the ranks as one environment variable,
//   TESSERA_LAUNCH = token:port:address,address,…
// which `cli` reads and passes on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::launch {

constexpr const char* kHomeVariable = "TESSERA_LAUNCH";

struct Home {
  std::string token;
  int port = 0;
  std::vector<std::string> addresses;  // tried in this order; numbers, no names
};

std::string to_text(const Home& home);
Home parse_home(std::string_view text);  // throws Error

std::string new_token();  // 128 random bits, as 32 hexadecimal digits

// Of the interfaces that are up, IPv4 before IPv6, loopback last; no link-local ones.
std::vector<std::string> own_addresses();

}  // namespace tessera::launch
