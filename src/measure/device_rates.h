// The measurements of `tessera bench`. Each function runs for about the given time on all threads
// and returns the best rate: the limit of the machine, not the average under other load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/cost.h"
#include "tensor/cpu_features.h"

namespace tessera::measure {

// A GEMM of a training step: C [m, n] = A [m, k] times B [k, n].
struct ProductCase {
  std::string name;  // "2048 cubed", "qkv", …
  GemmKind kind = GemmKind::kForward;
  int64_t m = 0, n = 0, k = 0;
};

// Returns 2048^3 and all GEMMs of a layer and of the LM head for a model of this width.
std::vector<ProductCase> product_cases(int64_t tokens, int64_t hidden, int64_t vocabulary);

struct ProductRate {
  double plain = 0;   // operations per second (two per multiply-add), operands not packed
  double packed = 0;  // with a packed second operand; 0 if the kernel does not pack
  double other = 0;   // OpenBLAS, for f32 if it is installed; else 0
  double best() const;
};
ProductRate measure_product(const ProductCase& c, DType type, const CpuFeatures& cpu, int threads,
                            double seconds);

// Bandwidth in bytes per second over arrays much larger than the caches. Bytes are counted as in
// STREAM (McCalpin 1995): those the program reads and writes, without the cache lines that the
// hardware fetches before a write.
struct MemoryRate {
  double read = 0, copy = 0, triad = 0;
};
MemoryRate measure_memory(const CpuFeatures& cpu, int threads, double seconds);

}  // namespace tessera::measure
