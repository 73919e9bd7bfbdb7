// Well-formed UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// Bytes of the character that starts at s[i], 1 to 4; 0 if none is well formed there.
size_t utf8_length(std::string_view s, size_t i);

}  // namespace tessera
