// Turns failed reads of a mapped file into errors. A read fails if the file was truncated, its disk
// failed, or its server cannot be reached; it would otherwise raise SIGBUS, which ends the process
// without a message.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// Watches a mapping until forget_mapping(). A page of it that cannot be read is replaced by zeros,
// and the next require_mapped_reads() throws. The first call installs the SIGBUS handler; a SIGBUS
// outside of watched mappings is passed to the previous handler. Does nothing if 4,096 mappings are
// watched already.
void watch_mapping(const void* begin, size_t bytes, std::string_view path);
void forget_mapping(const void* begin);

// Throws one Error that names file and byte if a watched page could not be read. Call it after
// reading bytes of a mapping and before using the result.
void require_mapped_reads();

}  // namespace tessera
