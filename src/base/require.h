// The CHECK of base/error.h for files that nvcc compiles, since nvcc does not support fmt's format
// strings.
#pragma once

namespace tessera {

[[noreturn]] void require_failed(const char* text, const char* file, int line);

// A violated condition is a bug in Tessera: prints the text and the caller's location, and aborts,
// in all builds. `text` states what was found.
inline void require(bool condition, const char* text, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (!condition) [[unlikely]]
    require_failed(text, file, line);
}

}  // namespace tessera
