#include "base/count.h"

#include <fmt/format.h>

namespace tessera {

std::string format_count(int64_t n) {
  const std::string digits = fmt::format("{}", n);
  const size_t sign = n < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

}  // namespace tessera
