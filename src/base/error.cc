#include "base/error.h"

#include <cstdio>
#include <cstdlib>

#include "base/require.h"
#include "base/utf8.h"

namespace tessera {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "tessera: internal error at %s:%d: %s (%s)\n", file, line,
               printable(message).c_str(), condition);
  std::abort();
}

void require_failed(const char* text, const char* file, int line) {
  std::fprintf(stderr, "tessera: internal error at %s:%d: %s\n", file, line, text);
  std::abort();
}

std::string sentence(std::string message) {
  if (!message.ends_with('.')) message += '.';
  return message;
}

}  // namespace tessera
