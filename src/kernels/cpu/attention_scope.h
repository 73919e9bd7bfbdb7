// What AttentionScope means for each head: labels and biases where the vector code reads them.
#pragma once

#include "kernels/cpu/packed_heads.h"

namespace tessera::kernels {

// The scope of one call. Its memory follows the threads' buffers: the bucket of each distance, and
// in the gradient one bias gradient per sample and head, so that they are summed in one order.
class ScopeOfHeads {
 public:
  ScopeOfHeads(const AttentionScope& scope, const PackedHeads& p, void* memory);

  // The keys' labels and what else a group's heads have in common.
  void set(int64_t sample, const HeadBuffers& b, KeyHead& keys) const;
  // A head's bias by distance; with `gradient` a zeroed place for its gradient too.
  void set(int64_t head, const HeadBuffers& b, bool gradient, QueryHead& h) const;
  // The head's sums by distance, added up by bucket.
  void keep(int64_t sample, int64_t head, const QueryHead& h) const;
  // All samples' sums into d_bias.
  void add(const TensorView& d_bias, bool fresh) const;

 private:
  int64_t distances() const { return p_.t + p_.s - 1; }
  float* part(int64_t sample, int64_t head) const;

  const AttentionScope& scope_;
  const PackedHeads& p_;
  int32_t* buckets_;
  float* parts_;
};
int64_t scope_bytes(int64_t t, int64_t s, int64_t bias_parts);

}  // namespace tessera::kernels
