// How much memory this process may use.
#pragma once

#include <cstdint>

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

}  // namespace tessera
