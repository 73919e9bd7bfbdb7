// Reads of a mapped file that the system cannot fulfill: the file was cut, its disk failed, its
// server is gone. Without this they are a SIGBUS, which ends the process without a word.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// Watches a mapping from here until forget_mapping(). A page of it that cannot be read becomes
// zeros, and require_mapped_reads() throws from then on. The first call installs the handler of
// SIGBUS; a SIGBUS outside of watched mappings is left to the handler before it. Where 4,096 are
// watched already, this one is not.
void watch_mapping(const void* begin, size_t bytes, std::string_view path);
void forget_mapping(const void* begin);

// Throws Error that names file and byte if a watched page could not be read. To be called after
// bytes of a mapping were used and before what they gave is.
void require_mapped_reads();

}  // namespace tessera
