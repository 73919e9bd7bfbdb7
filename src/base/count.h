// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

std::string format_count(int64_t n);  // 1,240 and -12,000
inline double gib(auto bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace tessera
