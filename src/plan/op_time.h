// How long an op that communicates nothing takes on a device.
//
//   products    tiles of 256 x 128 … 64 x 64 on `processors` units, in waves; the fastest tile and
//               split of k is taken. A tile takes 2 rows columns (k + kTileOverhead) operations at
//               the device's rate, matrix_efficiency and the tile's own share. Where products were
//               measured, the rates of the nearest shapes instead.
//               Operands of eight bits are read twice (their largest, then all) and written once;
//               where the device multiplies none, they are multiplied in their own type.
//   attention   its operations at attention_efficiency of the rate of full tiles, or as measured;
//               of that the share that the software's kernel reaches
//   others      their bytes (cost_of) at memory_bytes_per_s × memory_efficiency, or as measured
//
// None is faster than its bytes, and each kernel takes at least kernel_s. Of an op that the
// software makes by several kernels each moves the operands once.
#pragma once

#include <span>
#include <string>

#include "ir/rule.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera {

// A product (or `batch` alike) as a device sees it: C [m, n] = sum over k.
struct ProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DType type = DType::kF32;
  const char* kind = "forward";  // as in MeasuredProduct
  bool fp8 = false;              // operands are rounded to eight bits first, and multiplied so
};
double product_s(const ProductShape& shape, const DeviceFigures& device);

// `values` have the shapes of one rank (local_values).
double op_s(const Op& op, ValueSpan values, const Hardware& hardware, const Software& software);

// Of so many bytes to the host's memory, or back: at host_bytes_per_s. Of a device whose memory is
// the host's, read and written once. Throws Error where the link of a device is not known.
double host_copy_s(int64_t bytes, const DeviceFigures& device);

// The product that an op is; of matmul, matmul_grad_input and matmul_grad_weight.
ProductShape product_of(const Op& op, ValueSpan values);
// Bytes that an op moves: cost_of's, but for tables, of which only rows that are looked up move,
// and for what an update reads and writes.
double moved_bytes(const Op& op, ValueSpan values);
// The key of an op in a device's measured rates: "norm.bf16".
std::string rate_key(const Op& op, ValueSpan values);

// Operations of the op as they are counted for MFU, and what of them the device computes.
struct OpFlops {
  double model = 0, hardware = 0, square = 0;
};
OpFlops op_flops(const Op& op, ValueSpan values);

// Tokens of which the fused head makes logits at once.
constexpr int64_t kHeadChunk = 512;

bool communicates(OpKind kind);

}  // namespace tessera
