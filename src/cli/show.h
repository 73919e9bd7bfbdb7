// Prints lines for people on standard output. Names and messages that come from files may be part
// of them: what a terminal would act on is escaped.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "base/printable.h"

namespace tessera {

template <class... A>
void show(fmt::format_string<A...> format, A&&... a) {
  const std::string text = printable(fmt::format(format, std::forward<A>(a)...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace tessera
