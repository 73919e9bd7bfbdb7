// Sums and maxima of several arrays in a fixed order, ((x_0 + x_1) + x_2) + …, which makes results
// independent of the transport and of timing. The arrays are added in blocks of 1,024 elements, so
// that the running sums stay in the L1 cache while the terms stream through. 16-bit terms are added
// in f32 and rounded once per element.
#include "comm/reduce.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/tensor.h"

namespace tessera::comm {
namespace {

constexpr int64_t kBlock = 1024;  // elements per block: their sums stay in the L1 cache

// A stored number in the type of its sum, and back.
template <class Term>
float wide(Term x) {
  return as_f32(x);
}
double wide(double x) { return x; }
template <class Out>
void put(float x, Out& to) {
  store_f32(x, to);
}
void put(double x, double& to) { to = x; }

template <class Sum, class Term>
void first(const Term* x, int64_t n, Sum* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] = wide(x[i]);
}

template <class Sum, class Term>
void next(const Term* x, int64_t n, Reduction r, Sum* sum) {
  if (r == Reduction::kSum) {
    for (int64_t i = 0; i < n; ++i) sum[i] += wide(x[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const Sum y = wide(x[i]);
    // A NaN in the sum stays. A NaN in y makes both comparisons false, so y is stored.
    sum[i] = sum[i] > y || sum[i] != sum[i] ? sum[i] : y;
  }
}

template <class Sum, class Out>
void store(const Sum* sum, int64_t n, bool add, Out* out) {
  if (add)
    for (int64_t i = 0; i < n; ++i) put(wide(out[i]) + sum[i], out[i]);
  else
    for (int64_t i = 0; i < n; ++i) put(sum[i], out[i]);
}

template <class Sum, class Term, class Out>
void reduce(const Reduce& r) {
  Sum sum[kBlock];
  for (int64_t from = 0; from < r.n; from += kBlock) {
    const int64_t n = std::min(kBlock, r.n - from);
    const auto term = [&](size_t t) { return reinterpret_cast<const Term*>(r.terms[t]) + from; };
    first(term(0), n, sum);
    for (size_t t = 1; t < r.terms.size(); ++t) next(term(t), n, r.reduction, sum);
    store(sum, n, r.add, reinterpret_cast<Out*>(r.out) + from);
  }
}

}  // namespace

void reduce_in_order(const Reduce& r) {
  if (r.in == DType::kF32 && r.out_type == DType::kF32) return reduce<float, float, float>(r);
  if (r.in == DType::kBF16 && r.out_type == DType::kBF16) return reduce<float, BF16, BF16>(r);
  if (r.in == DType::kBF16 && r.out_type == DType::kF32) return reduce<float, BF16, float>(r);
  if (r.in == DType::kF16 && r.out_type == DType::kF16) return reduce<float, F16, F16>(r);
  if (r.in == DType::kF16 && r.out_type == DType::kF32) return reduce<float, F16, float>(r);
  if (r.in == DType::kF64 && r.out_type == DType::kF64) return reduce<double, double, double>(r);
  CHECK(false, "no sum of {} to {}", name_of(r.in), name_of(r.out_type));
}

}  // namespace tessera::comm
