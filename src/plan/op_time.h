// Predicts the time of an op without communication on a device: its Cost (ir/cost.h) in seconds.
//
//   GEMMs       tiles of 256 x 128 … 64 x 64 on `processors` units, in waves, with the fastest tile
//               and split of k. A tile needs 2 rows columns (k + kTileOverhead) operations, at the
//               device's rate × matrix_efficiency × the share of that tile. If GEMMs were measured,
//               the rate is interpolated between measured shapes instead.
//               FP8 operands are read twice (for the maximum, then for the conversion) and written
//               once; on a device without FP8 they are multiplied in their original type.
//   attention   its operations at attention_efficiency × the rate of full tiles, or as measured,
//               times the software's attention_share
//   others      moved_bytes at memory_bytes_per_s × memory_efficiency, or as measured
//
// Without measured rates, the time is at least that of moving the bytes, and each kernel needs at
// least kernel_s. If the software uses several kernels for an op, each moves the operands once.
#pragma once

#include <span>
#include <string>

#include "ir/rule.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::plan {

double product_s(const GemmShape& shape, const DeviceFigures& device);

// `cost` is cost_of(op, values), whose `values` have the shapes of one rank (local_values).
double op_s(const Op& op, const Cost& cost, ValueSpan values, const Hardware& hardware,
            const Software& software);

// Returns the seconds of a copy of `bytes` to host memory or back, at host_bytes_per_s. On a CPU
// the bytes are read and written once in its memory. Throws Error if the rate is not known.
double host_copy_s(double bytes, const DeviceFigures& device);

// Returns the key of an op in a device's measured rates: "norm.bf16".
std::string rate_key(const Op& op, ValueSpan values);

// The number of tokens for which the fused head computes logits at once.
constexpr int64_t kHeadChunk = 512;
// The maximum bytes of the rows that the experts' kernel processes at once.
constexpr int64_t kExpertsBytes = 256ll << 20;

// Returns the number of kernels that the software launches for an op of that kind.
double kernels_of(OpKind kind, const Software& software);

}  // namespace tessera::plan
