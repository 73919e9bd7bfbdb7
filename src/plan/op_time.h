// How long an op that communicates nothing takes on a device: its Cost (ir/cost.h) in seconds.
//
//   products    tiles of 256 x 128 … 64 x 64 on `processors` units, in waves; the fastest tile and
//               split of k is taken. A tile takes 2 rows columns (k + kTileOverhead) operations at
//               the device's rate, matrix_efficiency and the tile's own share. Where products were
//               measured, the rates of the nearest shapes instead.
//               Operands of eight bits are read twice (their largest, then all) and written once;
//               where the device multiplies none, they are multiplied in their own type.
//   attention   its operations at attention_efficiency of the rate of full tiles, or as measured;
//               of that the share that the software's kernel reaches
//   others      their moved_bytes at memory_bytes_per_s × memory_efficiency, or as measured
//
// None is faster than its bytes, and each kernel takes at least kernel_s. Of an op that the
// software makes by several kernels each moves the operands once.
#pragma once

#include <span>
#include <string>

#include "ir/rule.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::plan {

double product_s(const ProductShape& shape, const DeviceFigures& device);

// `cost` is cost_of(op, values), whose `values` have the shapes of one rank (local_values).
double op_s(const Op& op, const Cost& cost, ValueSpan values, const Hardware& hardware,
            const Software& software);

// The time of a copy of that many bytes to the host's memory, or back: at host_bytes_per_s. Where
// the device's memory is the host's, they are read and written once. Throws Error where the link of
// a device is not known.
double host_copy_s(double bytes, const DeviceFigures& device);

// The key of an op in a device's measured rates: "norm.bf16".
std::string rate_key(const Op& op, ValueSpan values);

// Tokens of which the fused head makes logits at once.
constexpr int64_t kHeadChunk = 512;
// Bytes of the rows that the experts' kernel holds at once.
constexpr int64_t kExpertsBytes = 256ll << 20;

// How many kernels the software launches for an op of that kind.
double kernels_of(OpKind kind, const Software& software);

}  // namespace tessera::plan
