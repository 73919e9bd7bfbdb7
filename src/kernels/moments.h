// Conversions between moments in f32 and in 8 bits (base/moment_code.h), on the host. The update
// reads and writes the codes itself (kernels/update.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/moment_code.h"

namespace tessera::kernels {

// Quantizes whole blocks. codes [n], scales [n / 64]. REQUIRES: n = x.size() is a multiple of 64.
void quantize_moments(std::span<const float> x, MomentCode code, std::span<uint8_t> codes,
                      std::span<float> scales, int threads);

// Reads the moments [first, first + x.size()) of codes [n] with scales [n / 64]. Quantizing the
// moments of whole blocks again gives the same codes and scales.
void dequantize_moments(std::span<const uint8_t> codes, std::span<const float> scales,
                        MomentCode code, int64_t first, std::span<float> x);

}  // namespace tessera::kernels
