// The cost of an op as a description: which products it makes, which pairs attention visits, which
// bytes move. It contains no machine figures; plan/op_time.h turns it into seconds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/enum_array.h"

namespace tessera {

// Which product of a linear layer: y = x wᵀ, or one of its gradients.
enum class ProductKind : uint8_t { kForward, kInputGradient, kWeightGradient };
constexpr size_t count_of(ProductKind) {
  return static_cast<size_t>(ProductKind::kWeightGradient) + 1;
}
std::string_view name_of(ProductKind kind);  // "forward", "input gradient", "weight gradient"

// A matrix product, or `batch` equal ones: C [m, n] = sum over k. The tokens of a layer are m, of a
// weight gradient k.
struct ProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DType type = DType::kF32;  // of the operands
  ProductKind kind = ProductKind::kForward;
  bool fp8 = false;  // the operands are rounded to eight bits first

  double flops() const;
};

// The pairs of a query and a key that fused attention visits, of all sequences and heads together.
struct AttentionPairs {
  double pairs = 0;
  int64_t head_size = 0;
  int64_t products = 0;  // of each pair, `head_size` multiply-adds each
  DType type = DType::kF32;

  double flops() const;
};

// The form of an op's work, which decides how its parts make up its time.
enum class Work : uint8_t {
  kSweep,      // reads and writes moved_bytes; has no products
  kProduct,    // one product
  kScores,     // products of unfused attention, whose scores are read from or written to memory
  kAttention,  // fused attention: pairs, and no scores in memory
  kChunks,     // products by chunks of tokens, with the logits of one chunk in memory
  kGrouped,    // grouped GEMM: each expert's matrix times the rows of its tokens
  kHostCopy,   // copies moved_bytes to the memory of the host, or back
};

// The same work by three counts: `model` leaves out masked pairs and what is computed twice,
// `hardware` is what runs, `square` is `model` with every pair of attention.
struct Flops {
  double model = 0, hardware = 0, square = 0;
};

struct Cost {
  Work work = Work::kSweep;
  std::vector<ProductShape> products;  // in the order in which they run
  AttentionPairs attention;
  double bytes = 0;  // every input and output once
  // What the kernels read and write: of a table only the rows that are looked up, and twice what
  // is read and then written.
  double moved_bytes = 0;
  Flops flops;  // 2 per multiply-add of products and pairs
};

}  // namespace tessera
