#include "base/require.h"

#include <cstdio>
#include <cstdlib>

namespace tessera {

void require_failed(const char* text, const char* file, int line) {
  std::fprintf(stderr, "tessera: internal error at %s:%d: %s\n", file, line, text);
  std::abort();
}

}  // namespace tessera
