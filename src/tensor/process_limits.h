// The resource limits of this process: its memory, and the limits of its control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

// Addresses that allocators and thread stacks reserve and do not use: `ulimit -v` counts them.
constexpr int64_t kReservedAddresses = int64_t{64} << 20;

// Bytes for data: the smallest of the machine's memory, its control groups' limits, `ulimit -d`,
// and `ulimit -v` less kReservedAddresses and the code of the program and its libraries.
int64_t memory_limit();

// Bytes that the process may still map before it reaches `ulimit -v`; INT64_MAX without this limit.
int64_t free_address_space();

// Under `ulimit -v` all threads share one heap: each further one would reserve 64 MiB of addresses.
void keep_one_heap_where_addresses_are_limited();

// The folders of this process's control groups for one controller, innermost first; version 2 has
// one tree for all ("0::/path"), version 1 one per controller ("5:memory:/path").
std::vector<std::string> group_folders(const std::string& controller);

// Nothing where the file cannot be read.
std::optional<std::string> read_first_line(const std::string& path);

// The bytes that a text such as "512K" or "1048576" states.
int64_t parse_size(const std::string& text);

}  // namespace tessera
