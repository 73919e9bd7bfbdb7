// Text from files on its way to a terminal or a log.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// `text` with everything escaped that a terminal would act on instead of showing: control
// characters other than line ends and tabs (\x1b), those of Latin-1 (\u009b), characters that
// change the direction of writing (\u202e), and bytes that are not UTF-8 (\xff).
std::string printable(std::string_view text);

// Returns `message` with a full stop at its end, so that another sentence can follow.
std::string sentence(std::string message);

}  // namespace tessera
