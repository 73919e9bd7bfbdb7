// Copies of bytes on the CPU.
#include "kernels/copy.h"

#include <cstring>

namespace tessera::kernels {

void launch(Cpu, const Launch&, const CopyArgs& a) {
  std::memcpy(a.to.data, a.from.data, a.to.bytes());
}

void launch(Cpu, const Launch&, const CopyRowsArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    std::memcpy(static_cast<std::byte*>(a.to) + r * a.to_pitch,
                static_cast<const std::byte*>(a.from) + r * a.from_pitch, a.bytes);
}

}  // namespace tessera::kernels
