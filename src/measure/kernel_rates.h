// What `tessera bench --kernels` measures: every own kernel of a training step by itself, in the
// sizes of a model, on the CPU or on a GPU. The bytes are those that the op must read and
// write once by its definition, whatever its kernel does; sums over rows and tables are counted
// where they are not small beside them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace tessera::measure {

// GPT-2 1.5B by default, with so many tokens that an operand is larger than a device's caches.
struct KernelSizes {
  int64_t sequences = 32, length = 1024;
  int64_t hidden = 1600, heads = 25, vocabulary = 50257;
  int64_t logit_rows = 2048;
};

struct KernelRate {
  std::string name;  // "norm", "adamw", …
  DType type = DType::kF32;
  double bytes = 0, flops = 0;  // of one run; attention alone has FLOPs
  double seconds = 0;           // of the fastest run
};

// `seconds` go to each kernel; 0: it runs twice. On a device its runs are one graph, so that
// launches do not count.
std::vector<KernelRate> measure_kernels(const kernels::Backend& device, const KernelSizes& sizes,
                                        const std::function<double()>& now_s, double seconds);

// Bytes a second, read and written, of a copy of `bytes` by the device's own means.
double measure_copy(const kernels::Backend& device, int64_t bytes,
                    const std::function<double()>& now_s, double seconds);

}  // namespace tessera::measure
