// The MXFP4 format (OCP Microscaling Formats 1.0), in which gpt-oss publishes its experts: blocks
// of 32 numbers with one scale.
//
//   a byte of a block   two numbers of 4 bits, the first in the lower half: sign, then
//                       0, 0.5, 1, 1.5, 2, 3, 4, 6 (E2M1)
//   a scale             a byte s for the factor 2^(s - 127) (E8M0); 255 is NaN
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::checkpoint {

constexpr int64_t kMxfp4Block = 32;

// Writes the numbers [first, first + count) as bf16, which represents all of them exactly, except
// that those from 2^128 on become infinite. Number i is in byte i / 2 of `blocks` and has scale
// i / 32.
void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                  int64_t first, int64_t count, std::byte* out);

}  // namespace tessera::checkpoint
