// T5's buckets of distances (Raffel et al. 2020): near ones have one each, far ones share, up to
// `distance`, beyond which all are one.
//   n = distance of key - query, e = half of the buckets of one side
//   bucket = n for n < e, else min(e + floor(log(n / e) / log(distance / e) * (side - e)), side -
//   1)
// Causal: n = query - key, keys ahead count as n = 0, one side has all buckets. Else each side has
// half of them: keys ahead the upper half. In f32, as transformers and Mesh TensorFlow compute it.
#pragma once

#include <cstdint>

namespace tessera::kernels {

struct RelativeBuckets {
  int64_t buckets = 32, distance = 128;
  bool causal = true;
};
int64_t relative_bucket(const RelativeBuckets& r, int64_t key_minus_query);

}  // namespace tessera::kernels
