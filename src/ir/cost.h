// Describes the cost of an op: its GEMMs, the query–key pairs that attention visits, and the bytes
// that it moves. It contains no machine figures; plan/op_time.h turns it into seconds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/enum_array.h"

namespace tessera {

// The GEMM of a linear layer: y = x wᵀ, or one of its gradients.
enum class GemmKind : uint8_t { kForward, kInputGradient, kWeightGradient };
constexpr size_t count_of(GemmKind) { return static_cast<size_t>(GemmKind::kWeightGradient) + 1; }
std::string_view name_of(GemmKind kind);  // "forward", "input gradient", "weight gradient"

// A GEMM, or `batch` equal ones: C [m, n] = sum over k. The tokens of a layer are m, or for a
// weight gradient k.
struct GemmShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DType type = DType::kF32;  // dtype of the operands
  GemmKind kind = GemmKind::kForward;
  bool fp8 = false;  // the operands are quantized to FP8 first

  double flops() const;
};

// The query–key pairs that fused attention visits, summed over all sequences and heads.
struct AttentionPairs {
  double pairs = 0;
  int64_t widths = 0;  // multiply-adds per pair: the width of keys or of values for each GEMM
  DType type = DType::kF32;

  double flops() const;
};

// The kind of an op's work, which decides how its parts make up its time.
enum class Work : uint8_t {
  kSweep,      // reads and writes moved_bytes; has no GEMMs
  kProduct,    // one GEMM
  kScores,     // GEMMs one after another, with their results in memory: unfused attention,
               // Newton–Schulz iterations
  kAttention,  // fused attention: pairs, and no scores in memory
  kChunks,     // GEMMs on chunks of tokens, with the logits of one chunk in memory
  kGrouped,    // grouped GEMM: each expert's matrix times the rows of its tokens
  kHostCopy,   // copies moved_bytes to the memory of the host, or back
};

// The same work as three counts: `model` omits masked pairs and recomputation, `hardware` counts
// what runs, `square` is `model` with every pair of attention.
struct Flops {
  double model = 0, hardware = 0, square = 0;
};

struct Cost {
  Work work = Work::kSweep;
  std::vector<GemmShape> products;  // in execution order
  AttentionPairs attention;
  double bytes = 0;  // every input and output once
  // Bytes that the kernels read and write: for a table only the rows that are looked up; data that
  // is read and then written counts twice.
  double moved_bytes = 0;
  Flops flops;  // 2 per multiply-add of GEMMs and pairs
};

}  // namespace tessera
