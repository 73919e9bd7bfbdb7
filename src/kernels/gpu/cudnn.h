// Attention by cuDNN's graph API: which plans it has for a shape, and runs of them. Where they
// stand beside our own kernels: kernels/gpu_attention.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/gpu_attention.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// Elements between neighbours of an array [batch, heads, rows, D], whose last are dense.
struct HeadPlaces {
  int64_t batch = 0, head = 0, row = 0;
  bool operator==(const HeadPlaces&) const = default;
};

// What keys a query sees: all, those of its own label, or those whose label is not 0.
enum class DnnLabels : uint8_t { kNone, kSame, kNotZero };

// What cuDNN is asked for: `heads` heads of queries, which share kv_heads heads of keys and values
// in turn (heads / kv_heads of each). A gradient lies like its value. Statistics are
// [batch, heads, queries] f32, the natural logarithm of the sum of exponentials of scaled scores.
struct DnnShape {
  DType dtype = DType::kBF16;
  bool gradient = false;
  bool causal = true;
  DnnLabels labels = DnnLabels::kNone;
  float scale = 1;
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, d = 64;
  HeadPlaces q, k, v, out;
  int64_t stats_batch = 0, stats_head = 0;  // elements between neighbours
  int64_t label_batch = 0;                  // of labels [batch, keys] i32; 0: all have the same
};

// Device memory, aligned to 16 bytes. Of the forward: `out` and `stats` are written. Of the
// gradient: dq, dk, dv are.
struct DnnOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  float* stats = nullptr;
  const int32_t* labels = nullptr;
  const void* d_out = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class DnnAttention {
 public:
  // Asks which plans there are, the one that cuDNN likes best first; gradients only by algorithms
  // that give the same bits every time. Throws Error with cuDNN's words where there are none.
  // `dnn` outlives it.
  DnnAttention(const DnnShape& shape, const CudaDnn& dnn);
  ~DnnAttention();

  const DnnShape& shape() const { return shape_; }
  const std::vector<std::string>& plans() const { return plans_; }  // names
  // Makes the code of a plan: once, before the next two. Throws Error.
  void build(size_t plan);
  int64_t workspace_bytes(size_t plan) const;
  void run(Stream s, size_t plan, const DnnOperands& operands, void* workspace) const;

 private:
  struct Graph;
  DnnShape shape_;
  std::vector<std::string> plans_;
  std::unique_ptr<Graph> graph_;
};

// Our packed arrays of attention (kernels/attention.h) as cuDNN's tensors of four dimensions, and
// one attention as several runs.
//
// The queries of a group are next to their key and value, [B, T, KV, G+2, D]: if G > 1, the heads
// are not evenly apart over all groups. So then a run is of one sample, whose groups are cuDNN's
// batch. Where keys and values are an array of their own, or G = 1, heads are evenly apart and a
// run has samples as its batch. Fewer groups a run need less workspace.
struct DnnParts {
  AttentionShape shape;
  int64_t samples = 1, kv = 1;  // of a run; divisors of the shape's

  // As many as a run can have of all samples; of all groups, or of the next fewer ones.
  static DnnParts whole(const AttentionShape& shape);
  // At least one sample and one group, for a workspace that is smaller by about this factor.
  DnnParts smaller(double times) const;

  int64_t runs() const { return shape.b / samples * (shape.kv / kv); }
  DnnShape run_shape() const;
  // Returns the operands of run `i`.
  DnnOperands operands(const AttentionArgs& a, int64_t i) const;
  DnnOperands operands(const AttentionGradArgs& a, int64_t i) const;
};

}  // namespace tessera::kernels::gpu
