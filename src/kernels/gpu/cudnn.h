// Attention by cuDNN's graph API: the plans for a shape, and their runs. kernels/gpu_attention.h
// chooses between these and our own kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/gpu_attention.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// Strides, in elements, of an array [batch, heads, rows, D] whose last axis is dense.
struct HeadPlaces {
  int64_t batch = 0, head = 0, row = 0;
  bool operator==(const HeadPlaces&) const = default;
};

// The keys that a query attends to: all, those with its own label, or those with a nonzero label.
enum class DnnLabels : uint8_t { kNone, kSame, kNotZero };

// A request for cuDNN. Each of the kv_heads heads of keys and values is shared by heads / kv_heads
// consecutive query heads. A gradient has the memory layout of its value. Statistics are
// [batch, heads, queries] f32: the natural logarithm of the sum of exponentials of scaled scores.
struct DnnShape {
  DType dtype = DType::kBF16;
  bool gradient = false;
  bool causal = true;
  DnnLabels labels = DnnLabels::kNone;
  float scale = 1;
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, d = 64;
  HeadPlaces q, k, v, out;
  int64_t stats_batch = 0, stats_head = 0;  // strides of the statistics, in elements
  int64_t label_batch = 0;  // stride of labels [batch, keys] i32; 0: all share one row
};

// Pointers to device memory, aligned to 16 bytes. The forward writes `out` and `stats`, the
// gradient writes dq, dk and dv.
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
  // Gets cuDNN's plans in its order of preference; for gradients only plans that give the same bits
  // in every run. Throws Error with cuDNN's message if there are none. `dnn` must outlive this
  // object.
  DnnAttention(const DnnShape& shape, const CudaDnn& dnn);
  ~DnnAttention();

  const DnnShape& shape() const { return shape_; }
  const std::vector<std::string>& plans() const { return plans_; }  // names
  // Generates the code of a plan. Must be called once, before the next two functions. Throws Error
  // if that fails.
  void build(size_t plan);
  int64_t workspace_bytes(size_t plan) const;
  void run(Stream s, size_t plan, const DnnOperands& operands, void* workspace) const;

 private:
  struct Graph;
  DnnShape shape_;
  std::vector<std::string> plans_;
  std::unique_ptr<Graph> graph_;
};

// Maps our packed attention arrays (kernels/attention.h) to cuDNN's 4-D tensors, and divides one
// attention into several runs.
//
// The queries of a group are next to their key and value, [B, T, KV, G+2, D]. If G > 1, the heads
// of all groups have no common stride, so a run has one sample, whose groups are cuDNN's batch. If
// keys and values are in a separate array, or G = 1, heads have a common stride and the batch of a
// run is samples. Fewer groups per run need less workspace.
struct DnnParts {
  AttentionShape shape;
  int64_t samples = 1, kv = 1;  // per run; divisors of b and kv of the shape

  // Returns the parts with the largest runs: all groups, and all samples if heads have a common
  // stride, else one.
  static DnnParts whole(const AttentionShape& shape);
  // Returns smaller parts, for a workspace that is smaller by about this factor; at least one
  // sample and one group per run.
  DnnParts smaller(double times) const;

  int64_t runs() const { return shape.b / samples * (shape.kv / kv); }
  DnnShape run_shape() const;
  // Returns the operands of run `i`.
  DnnOperands operands(const AttentionArgs& a, int64_t i) const;
  DnnOperands operands(const AttentionGradArgs& a, int64_t i) const;
};

}  // namespace tessera::kernels::gpu
