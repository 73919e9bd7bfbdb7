// What `tessera bench` measures. Every function runs for about the given time with all threads and
// returns the best it saw: the limit of the machine, not what a busy moment left of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/cost.h"
#include "tensor/cpu_features.h"

namespace tessera::measure {

// A matrix product of a training step: C [m, n] = sum over k.
struct ProductCase {
  std::string name;  // "2048 cubed", "qkv", …
  ProductKind kind = ProductKind::kForward;
  int64_t m = 0, n = 0, k = 0;
};

// 2048^3 and every product of a layer and of the head of a model of that width.
std::vector<ProductCase> product_cases(int64_t tokens, int64_t hidden, int64_t vocabulary);

struct ProductRate {
  double plain = 0;   // operations (two a multiply-add) a second, operands as they lie
  double packed = 0;  // with the second operand in the library's order; 0 where there is none
  double other = 0;   // OpenBLAS, in f32 and where it is installed; else 0
  double best() const;
};
ProductRate measure_product(const ProductCase& c, DType type, const CpuFeatures& cpu, int threads,
                            double seconds);

// Bytes a second over arrays much larger than the caches, counted as STREAM does (McCalpin 1995):
// what the program reads and writes, without what the hardware fetches before a write.
struct MemoryRate {
  double read = 0, copy = 0, triad = 0;
};
MemoryRate measure_memory(const CpuFeatures& cpu, int threads, double seconds);

}  // namespace tessera::measure
