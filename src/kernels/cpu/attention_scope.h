// Prepares the labels and biases of AttentionScope for each head, in buffers that the vectorized
// code reads.
#pragma once

#include "kernels/cpu/packed_heads.h"

namespace tessera::kernels {

// The scope of one call. Its memory is after the buffers of the threads: the bucket of each
// distance, and for the gradient one bias gradient per sample and head, so that they are added in a
// fixed order.
class ScopeOfHeads {
 public:
  ScopeOfHeads(const AttentionScope& scope, const PackedHeads& p, void* memory);

  // Sets the labels of the keys and the other fields that the heads of a group share.
  void bind_keys(int64_t sample, const HeadBuffers& b, KeyHead& keys) const;
  // Sets a head's bias by distance; with `gradient`, also a zeroed buffer for its gradient.
  void bind_query(int64_t head, const HeadBuffers& b, bool gradient, QueryHead& h) const;
  // Stores the bias gradient of a head: its sums by distance, added up by bucket.
  void store_bias_gradient(int64_t sample, int64_t head, const QueryHead& h) const;
  // Adds the sums of all samples to d_bias, or writes them if `fresh`.
  void reduce_bias_gradient(const TensorView& d_bias, bool fresh) const;

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
