// How a run is laid out over its ranks, and the policies of its compiler, as values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "base/range.h"
#include "ir/mesh.h"
#include "model/model_config.h"

namespace tessera::compile {

enum class Precision : uint8_t { kFp32, kBf16, kBf16Sr, kFp16, kAuto };
enum class PipelineSchedule : uint8_t { kGpipe, k1F1B, kInterleaved1F1B, kZeroBubble };
constexpr size_t count_of(PipelineSchedule) {
  return static_cast<size_t>(PipelineSchedule::kZeroBubble) + 1;
}
enum class ContextMethod : uint8_t { kGather, kHeads, kRing };
constexpr size_t count_of(ContextMethod) { return static_cast<size_t>(ContextMethod::kRing) + 1; }
enum class ZeroReduce : uint8_t { kLast, kEach };
enum class AttentionKind : uint8_t { kFused, kUnfused };
enum class AttentionScoresDType : uint8_t { kF32, kCompute };
enum class SelectiveRecompute : uint8_t { kCheap, kCoreAttention };
enum class FullRecompute : uint8_t { kNeeded, kAll };
enum class CrossEntropyKind : uint8_t { kFused, kUnfused };
enum class DropoutMaskPolicy : uint8_t { kRegenerate, kStore };
enum class GradAccumDType : uint8_t { kF32, kWeight };
enum class GradReduceDType : uint8_t { kAccum, kWeight };
enum class GemmDType : uint8_t { kCompute, kFp8 };

struct Layout {
  int64_t data = 1, tensor = 1, pipeline = 1, context = 1, expert = 1;
  ContextMethod context_method = ContextMethod::kGather;
  bool context_balance = false;
  bool sequence_parallel = true;
  int64_t interleave = 1;
  PipelineSchedule pipeline_schedule = PipelineSchedule::k1F1B;
  std::vector<int64_t> stages;
  int64_t zero = 1, zero_group = 0;
  ZeroReduce zero_reduce = ZeroReduce::kLast;
  int64_t overlap = 1;
  std::string recompute =
      "none";                    // none | selective | full | full:N (the first N layers of a stage)
  std::string offload = "none";  // see parse_offload

  static void fields(auto& self, auto&& visit) {
    visit("data", self.data, "ranks that hold different sequences", at_least(1));
    visit("tensor", self.tensor, "ranks that share the matrices of a layer");
    visit("pipeline", self.pipeline, "stages");
    visit("context", self.context, "ranks that share a sequence");
    visit("context_method", self.context_method,
          "gather | heads | ring: how attention sees the tokens of other ranks. gather: it gathers "
          "keys and values; heads: an all-to-all gives each rank all tokens of some heads; ring: "
          "keys and values pass from rank to rank");
    visit("context_balance", self.context_balance,
          "each context rank has an early and a late chunk of every sequence, so that all have the "
          "same number of pairs of query and key; false: one contiguous part. Only for "
          "context_method: gather and ring");
    visit("expert", self.expert, "data-parallel ranks that divide the experts; divides data");
    visit("sequence_parallel", self.sequence_parallel,
          "split norms and residuals over tensor ranks");
    visit("interleave", self.interleave, "chunks of layers per stage");
    visit("pipeline_schedule", self.pipeline_schedule,
          "gpipe | 1f1b | interleaved_1f1b | zero_bubble");
    visit("stages", self.stages,
          "layers of each chunk of each stage, in the order of the model; none: by cost");
    visit("zero", self.zero,
          "ZeRO stage: 0 | 1 (optimizer state) | 2 (and gradients) | 3 (and weights)");
    visit("zero_group", self.zero_group,
          "data ranks that share one copy of what ZeRO divides; 0: all of them (that have the same "
          "experts)");
    visit("zero_reduce", self.zero_reduce,
          "last | each: gradients are reduced after the last micro-batch (zero 0 and 1) or each");
    visit(
        "overlap", self.overlap,
        "maximum number of compute calls past which gathers, receives, reductions and sends may be "
        "moved; 0: none");
    visit("recompute", self.recompute,
          "none | selective | full | full:N (the first N layers of a stage)");
    visit("offload", self.offload,
          "none | activations | activations:N (of the first N layers of a stage) | optimizer | "
          "activations+optimizer: what is in the host's memory: activations until their backward, "
          "master weights and moments until their update");
  }
};

struct CompilerOptions {
  AttentionKind attention = AttentionKind::kFused;
  AttentionScoresDType attention_scores_dtype = AttentionScoresDType::kF32;
  CrossEntropyKind cross_entropy = CrossEntropyKind::kFused;
  SelectiveRecompute selective_recompute = SelectiveRecompute::kCheap;
  FullRecompute full_recompute = FullRecompute::kNeeded;
  DropoutMaskPolicy dropout_masks = DropoutMaskPolicy::kRegenerate;
  GradAccumDType grad_accum_dtype = GradAccumDType::kF32;
  GradReduceDType grad_reduce_dtype = GradReduceDType::kAccum;
  GemmDType gemm_dtype = GemmDType::kCompute;
  bool deallocate_pipeline_outputs = true, fuse_grad_accumulation = true;
  int64_t bucket_bytes = 0;
  bool fuse_bias_gelu = true, fuse_residual_norm = true;
  bool tp_comm_overlap = false, ep_comm_overlap = false;
  int64_t tp_comm_chunks = 4;
  bool poison = false;

  static void fields(auto& self, auto&& visit) {
    visit("attention", self.attention,
          "fused | unfused: whether the scores of all pairs are stored; unfused stores them");
    visit("attention_scores_dtype", self.attention_scores_dtype,
          "f32 | compute: dtype of the scores of unfused attention; compute: the activations'");
    visit("cross_entropy", self.cross_entropy,
          "fused | unfused: whether the logits of all tokens are stored; unfused stores them");
    visit("selective_recompute", self.selective_recompute,
          "cheap | core_attention: what layout.recompute: selective recomputes");
    visit("full_recompute", self.full_recompute,
          "needed | all: which forward ops layout.recompute: full repeats; needed: those whose "
          "results the backward reads");
    visit("dropout_masks", self.dropout_masks,
          "regenerate | store: where a backward gets its dropout masks; fused attention always "
          "regenerates them");
    visit("deallocate_pipeline_outputs", self.deallocate_pipeline_outputs,
          "free the activations that a stage has sent; false: keep them until their gradient "
          "arrives");
    visit("grad_accum_dtype", self.grad_accum_dtype,
          "f32 | weight: dtype of accumulated weight gradients; weight: that of the weights");
    visit("grad_reduce_dtype", self.grad_reduce_dtype,
          "accum | weight: dtype in which gradients are reduced over ranks; accum: "
          "grad_accum_dtype");
    visit("fuse_grad_accumulation", self.fuse_grad_accumulation,
          "weight-gradient GEMMs add to the accumulated gradients; false: a separate op adds");
    visit("gemm_dtype", self.gemm_dtype,
          "compute | fp8: dtype of the operands of layer GEMMs; fp8: E4M3, and E5M2 for gradients, "
          "with a scale per tensor");
    visit("bucket_bytes", self.bucket_bytes,
          "largest bucket, in bytes, in which gradients of a layer are reduced; 0: one per layer",
          at_least(0));
    visit("fuse_bias_gelu", self.fuse_bias_gelu, "add the bias inside the activation");
    visit("fuse_residual_norm", self.fuse_residual_norm, "add the residual inside the norm");
    visit("tp_comm_overlap", self.tp_comm_overlap,
          "overlap the collectives of tensor parallelism with the computation of a layer");
    visit("ep_comm_overlap", self.ep_comm_overlap,
          "overlap the collectives of expert parallelism with the computation of a layer");
    visit("tp_comm_chunks", self.tp_comm_chunks,
          "largest number of chunks of sequences of a layer with tp_comm_overlap; 1: no chunks",
          at_least(1));
    visit("poison", self.poison, "debug: fill dead values with NaN before each call");
  }
};

// Returns the axes of the ranks. data = replica × shard × expert: the state that ZeRO divides is
// divided over `shard` and replicated over `replica`. `expert` divides the experts; all other
// weights are replicated over it. If key/value heads are replicated, layout.tensor = tensor_kv ×
// tensor: they are divided over tensor_kv and replicated over tensor.
Mesh mesh_of(const Layout& layout, int64_t head_copies = 1);
// Returns the number of ranks among which the heads of a layer are divided: those of layout.tensor,
// times those of layout.context with context_method: heads.
int64_t head_ranks(const Layout& layout);
// Returns the number of these ranks with the same key/value heads: 1 if head_ranks() divides the
// number of these heads.
int64_t head_copies(const model::ModelConfig& model, const Layout& layout);

// Activation checkpointing: which activations are saved for the backward.
struct Recompute {
  bool selective = false;   // norms, attention and gates are recomputed in the backward
  int64_t full_layers = 0;  // number of first layers that save only their input
  bool counted = false;     // the value was full:N, with a number of layers
};
// From `layout.recompute`: none | selective | full | full:N. Throws Error for anything else.
Recompute parse_recompute(const std::string& text, int64_t layers);

constexpr const char* enum_names(Precision) { return "fp32|bf16|bf16_sr|fp16|auto"; }
constexpr const char* enum_names(PipelineSchedule) {
  return "gpipe|1f1b|interleaved_1f1b|zero_bubble";
}
constexpr const char* enum_names(ContextMethod) { return "gather|heads|ring"; }
constexpr const char* enum_names(ZeroReduce) { return "last|each"; }
constexpr const char* enum_names(AttentionKind) { return "fused|unfused"; }
constexpr const char* enum_names(AttentionScoresDType) { return "f32|compute"; }
constexpr const char* enum_names(SelectiveRecompute) { return "cheap|core_attention"; }
constexpr const char* enum_names(FullRecompute) { return "needed|all"; }
constexpr const char* enum_names(CrossEntropyKind) { return "fused|unfused"; }
constexpr const char* enum_names(DropoutMaskPolicy) { return "regenerate|store"; }
constexpr const char* enum_names(GradAccumDType) { return "f32|weight"; }
constexpr const char* enum_names(GradReduceDType) { return "accum|weight"; }
constexpr const char* enum_names(GemmDType) { return "compute|fp8"; }

}  // namespace tessera::compile
