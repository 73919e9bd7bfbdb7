// Prints lines for people on standard output. Lines may contain names and messages from files, so
// characters that a terminal would interpret are escaped.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/count.h"
#include "base/log.h"
#include "base/utf8.h"

namespace tessera::cli {

// Returns a count with its noun: "1 rank", "1,240 ranks".
inline std::string counted(int64_t n, std::string_view thing) {
  return fmt::format("{} {}{}", format_count(n), thing, n == 1 ? "" : "s");
}

template <class... A>
void show(fmt::format_string<A...> format, A&&... a) {
  const std::string text = printable(fmt::format(format, std::forward<A>(a)...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// Writes text that is shown at once. Throws Error if it cannot be written.
inline void show_now(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  require_written_output();
}

}  // namespace tessera::cli
