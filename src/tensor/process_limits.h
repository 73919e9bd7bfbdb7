// The memory of this process, its resource limits, and the limits of its control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

// Bytes of address space that allocators and thread stacks reserve but do not use. `ulimit -v`
// counts them.
constexpr int64_t kReservedAddresses = int64_t{64} << 20;

// Returns the bytes available for data: the minimum of the machine's memory, the limits of the
// control groups, `ulimit -d`, and `ulimit -v` minus kReservedAddresses and the code of the program
// and its libraries.
int64_t memory_limit();

// Returns the bytes that the process may still map before it reaches `ulimit -v`; INT64_MAX without
// that limit.
int64_t free_address_space();

// Returns the resident memory of this process, from /proc/self/statm, or 0 if it cannot be read.
int64_t process_resident_bytes();

// Makes all threads share one heap if `ulimit -v` is set, because each additional heap would
// reserve 64 MiB of address space.
void keep_one_heap_where_addresses_are_limited();

// Returns the folders of this process's control groups for one controller, innermost first. Version
// 2 has one tree for all controllers ("0::/path"), version 1 has one per controller
// ("5:memory:/path").
std::vector<std::string> group_folders(const std::string& controller);

// Returns the first line of a file, or nothing if the file cannot be read.
std::optional<std::string> read_first_line(const std::string& path);

// Returns the number of bytes that a text such as "512K" or "1048576" means.
int64_t parse_size(const std::string& text);

}  // namespace tessera
