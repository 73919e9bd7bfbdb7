// Well-formed UTF-8 (RFC 3629), and the escaping of text that is shown on a terminal or in a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// Returns the length of the character that starts at s[i], 1 to 4 bytes; 0 if it is not well
// formed.
size_t utf8_length(std::string_view s, size_t i);

// Returns the number of characters (code points) in `s`, as editors count columns. A byte that does
// not begin a character counts as one.
size_t count_characters(std::string_view s);

// Returns `s` without a leading byte order mark, which editors do not show.
std::string_view without_byte_order_mark(std::string_view s);

// Returns `text` with everything escaped that a terminal would interpret instead of showing:
// control characters except line ends and tabs (\x1b), control characters of Latin-1 (\u009b),
// characters that change the writing direction (\u202e), and bytes that are not UTF-8 (\xff).
std::string printable(std::string_view text);

}  // namespace tessera
