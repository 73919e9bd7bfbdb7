// The measurements of `tessera bench --kernels`: each of Tessera's kernels alone, at the sizes of a
// model, on the CPU or on a GPU. Bytes are those that the op must read and write once by its
// definition, whatever its kernel moves. Row statistics and tables are counted only if they are not
// negligible.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace tessera::measure {

// The sizes of GPT-2 1.5B by default, with enough tokens that operands exceed a device's caches.
struct KernelSizes {
  int64_t sequences = 32, length = 1024;
  int64_t hidden = 1600, heads = 25, vocabulary = 50257;
  int64_t logit_rows = 2048;
};

struct KernelRate {
  std::string name;  // "norm", "adamw", …
  DType type = DType::kF32;
  double bytes = 0, flops = 0;  // per run; FLOPs are set only for attention, bytes for all others
  double seconds = 0;           // time of the fastest run
};

// Measures each kernel for about `seconds`; if 0, each runs twice. On a GPU the runs of a kernel
// are recorded in one graph, so that launch times are not included.
std::vector<KernelRate> measure_kernels(const kernels::Backend& device, const KernelSizes& sizes,
                                        const std::function<double()>& now_s, double seconds);

// Returns the rate of the device's copy kernel on arrays of `bytes`, in bytes read and written per
// second.
double measure_copy(const kernels::Backend& device, int64_t bytes,
                    const std::function<double()>& now_s, double seconds);

}  // namespace tessera::measure
