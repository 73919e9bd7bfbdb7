#include "base/error.h"

#include <cstdio>
#include <cstdlib>

#include "base/printable.h"

namespace tessera {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "tessera: internal error at %s:%d: %s (%s)\n", file, line,
               printable(message).c_str(), condition);
  std::abort();
}

}  // namespace tessera
