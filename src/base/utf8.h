// Well-formed UTF-8 (RFC 3629), and text from files on its way to a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// Bytes of the character that starts at s[i], 1 to 4; 0 if none is well formed there.
size_t utf8_length(std::string_view s, size_t i);

// Characters (code points) in `s`, as editors count columns. A byte that begins none counts as one.
size_t count_characters(std::string_view s);

// `s` without the byte order mark that it may begin with, which editors do not show.
std::string_view without_byte_order_mark(std::string_view s);

// `text` with everything escaped that a terminal would act on instead of showing: control
// characters other than line ends and tabs (\x1b), those of Latin-1 (\u009b), characters that
// change the direction of writing (\u202e), and bytes that are not UTF-8 (\xff).
std::string printable(std::string_view text);

}  // namespace tessera
