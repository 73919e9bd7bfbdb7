// CHECK of base/error.h for files that nvcc compiles: it cannot read the format strings of fmt.
#pragma once

namespace tessera {

[[noreturn]] void require_failed(const char* text, const char* file, int line);

// A violated condition is our bug: prints the text and the caller's place, and aborts, in every
// build. `text` states what was found.
inline void require(bool condition, const char* text, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (!condition) [[unlikely]]
    require_failed(text, file, line);
}

}  // namespace tessera
