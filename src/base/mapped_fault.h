// Turns failed reads of a mapped file into errors: the file was truncated, its disk failed, or its
// server cannot be reached. Otherwise such a read raises SIGBUS, which ends the process without a
// message.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// Watches a mapping from here until forget_mapping(). A page of it that cannot be read becomes
// zeros, and the next require_mapped_reads() throws. The first call installs the handler of SIGBUS;
// a SIGBUS outside of watched mappings is left to the handler before it. If 4,096 mappings are
// watched already, this one is not.
void watch_mapping(const void* begin, size_t bytes, std::string_view path);
void forget_mapping(const void* begin);

// Throws Error, once, that names file and byte if a watched page could not be read. Call it after
// reading bytes of a mapping and before using the result.
void require_mapped_reads();

}  // namespace tessera
