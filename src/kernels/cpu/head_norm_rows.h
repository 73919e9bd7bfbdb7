// Operands of the vector code of the norm of queries and keys.
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"

namespace tessera::kernels {

struct HeadNormRows {
  Source qkv, query_gain, key_gain;
  const float* squares = nullptr;        // [tokens, 2], or none
  float query_share = 1, key_share = 1;  // factor of sums of squares
  float epsilon = 0, offset = 0;
  int64_t kv = 0, slots = 0, d = 0;  // slots = G + 2: queries, a key, a value

  int64_t at(int64_t token, int64_t group, int64_t slot) const {
    return ((token * kv + group) * slots + slot) * d;
  }
  bool is_key(int64_t slot) const { return slot + 2 == slots; }
  bool is_value(int64_t slot) const { return slot + 1 == slots; }
  // Where the gains of a head begin in the array of gains.
  int64_t gain_at(int64_t group, int64_t slot) const {
    if (squares == nullptr) return 0;
    return (is_key(slot) ? group : group * (slots - 2) + slot) * d;
  }
  Source gain(int64_t group, int64_t slot) const {
    return (is_key(slot) ? key_gain : query_gain) + gain_at(group, slot);
  }
  float share(int64_t slot) const { return is_key(slot) ? key_share : query_share; }
};

struct HeadNormGradRows {
  HeadNormRows norm;
  Source dy;
  Sink dx;
  float* d_squares = nullptr;  // [tokens, 2]  written; or none
  // Sums of dy x r over a block of tokens: [blocks, query gains + key gains].
  float* partials = nullptr;
  int64_t query_gains = 0, gains = 0, tokens = 0;
};

}  // namespace tessera::kernels
