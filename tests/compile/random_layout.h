// Tiny models on small meshes, drawn from a seed: what compiles for all stages.
#pragma once

#include <fmt/ranges.h>

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "compile/layout_check.h"
#include "compile/request.h"
#include "model/family.h"
#include "model/presets.h"
#include "tests/every_family.h"

namespace tessera::testing {

class LayoutDraw {
 public:
  // `kinds`: layers of a decoder are of several kinds.
  explicit LayoutDraw(uint64_t seed, bool kinds = false,
                      std::vector<model::Family> families = every_family())
      : d_(seed), kinds_(kinds), families_(std::move(families)) {}

  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(d_);
  }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(number(0, static_cast<int64_t>(list.size()) - 1))];
  }

  // A run that the layout check accepts, of at most so many ranks.
  compile::CompileRequest request(int64_t most_ranks) {
    for (;;) {
      compile::CompileRequest r = any();
      const int64_t ranks = r.layout.data * r.layout.context * r.layout.tensor * r.layout.pipeline;
      if (ranks > most_ranks) continue;
      try {
        compile::check_layout(r.model, r.layout, {0, r.sequences, r.tokens, r.encoder_tokens});
        compile::check_head_copies(r);
        use_muon(r);
        use_8bit_moments(r);
        add_terms(r);
        add_mtp(r);
        return r;
      } catch (const Error&) {
      }
    }
  }

  // Returns true if only GEMMs with trained weights compute queries and keys.
  static bool can_clip(const compile::CompileRequest& r) {
    const model::Family f = r.model.family;
    return r.adapters.rank == 0 && r.frozen.empty() &&
           (f == model::Family::kLlama || f == model::Family::kMistral ||
            f == model::Family::kMixtral || f == model::Family::kDeepseekV3);
  }

 private:
  compile::CompileRequest any() {
    compile::CompileRequest r;
    model::apply_family(one_of<model::Family>(families_), r.model);
    r.model.layers = number(1, 6);
    if (model::rule_of(r.model.family).has_encoder) {
      r.model.encoder_layers = number(1, 3);
      r.model.layers = number(1, 3);
      r.encoder_tokens = 24;
    }
    r.model.hidden = 32;
    r.model.heads = 4;
    r.model.vocabulary = 96;
    r.model.vocabulary_multiple = 32;
    r.model.context = 16;
    r.model.tied_embeddings = number(0, 1) == 1;
    if (number(0, 3) == 0) r.model.dropout = 0.1;
    model::derive_sizes(r.model);
    r.sequences = number(1, 2);
    r.tokens = 16;
    r.microbatches = number(1, 5);
    if (model::rule_of(r.model.family).supports_gqa) r.model.kv_heads = r.microbatches % 3 + 1;
    if (r.model.kv_heads == 3) r.model.kv_heads = 4;
    if (r.model.experts > 0) experts(r.model);
    r.precision =
        one_of<compile::Precision>({compile::Precision::kFp32, compile::Precision::kBf16,
                                    compile::Precision::kBf16Sr, compile::Precision::kFp16});
    std::vector<OptimizerKind> kinds = {OptimizerKind::kAdamW};  // twice as often as others
    for (const OptimizerTraits& o : kOptimizers)
      if (!o.matrices) kinds.push_back(o.kind);
    r.optimizer.kind = one_of<OptimizerKind>(kinds);
    r.optimizer.beta1 = number(0, 1) ? 0.9 : 0;
    if ((r.sequences + r.microbatches) % 3 == 0) r.groups = groups(r.optimizer);
    if (number(0, 4) == 0) r.adapters.rank = 4;
    if (number(0, 4) == 0) r.frozen = {r.encoder_tokens > 0 ? "decoder.mlp.*" : "layer.mlp.*"};
    if (number(0, 9) == 0) r.frozen.emplace_back("embed.*");
    layout(r.layout);
    if (r.model.experts > 0) r.layout.expert = one_of<int64_t>({1, 2, 4});
    r.options.ep_comm_overlap = (r.sequences + r.model.layers) % 2 == 0;
    if (r.encoder_tokens == 0 && number(0, 2) == 0) r.layout.context = one_of<int64_t>({2, 4});
    if (r.layout.pipeline > 1 && number(0, 2) == 0)
      r.layout.stages = spread(r.model.all_layers(), r.layout.pipeline * r.layout.interleave);
    r.options.grad_accum_dtype = one_of<compile::GradAccumDType>(
        {compile::GradAccumDType::kF32, compile::GradAccumDType::kWeight});
    r.options.grad_reduce_dtype = one_of<compile::GradReduceDType>(
        {compile::GradReduceDType::kAccum, compile::GradReduceDType::kWeight});
    r.options.fuse_grad_accumulation = one_of<bool>({true, false});
    r.options.dropout_masks = one_of<compile::DropoutMaskPolicy>(
        {compile::DropoutMaskPolicy::kRegenerate, compile::DropoutMaskPolicy::kStore});
    r.options.bucket_bytes = one_of<int64_t>({0, 0, 1 << 10, 1 << 14});
    r.options.deallocate_pipeline_outputs = one_of<bool>({true, false});
    r.options.gemm_dtype =
        one_of<compile::GemmDType>({compile::GemmDType::kCompute, compile::GemmDType::kFp8});
    r.layout.offload = one_of<std::string>({"none", "none", "activations", "activations:1"});
    if (kinds_) kinds_of_layers(r.model);
    divide_sequences(r);
    pad_sequences(r);
    return r;
  }

  // Chooses how sequences are divided. Draws no numbers, so that other runs stay as they are.
  static void divide_sequences(compile::CompileRequest& r) {
    if (r.layout.context == 1) return;
    const int64_t way = (r.model.layers + r.microbatches) % 3;
    r.layout.context_balance = way == 1;
    compile::Layout heads = r.layout;
    heads.context_method = compile::ContextMethod::kHeads;
    const bool fits = r.model.heads % compile::head_ranks(heads) == 0;
    const bool copies = fits && compile::head_copies(r.model, heads) > 1;
    if (way == 2 && fits && (!copies || compile::can_copy_heads(r))) r.layout = heads;
  }

  // Half of the runs whose tokens only tensor-parallel ranks divide get lengths that need padding.
  // Draws no numbers either.
  static void pad_sequences(compile::CompileRequest& r) {
    const compile::Layout& l = r.layout;
    const bool chosen = (r.sequences + r.microbatches + r.model.layers) % 2 == 0;
    if (!chosen || l.context > 1 || l.tensor == 1 || !l.sequence_parallel) return;
    r.tokens = 13;
    if (r.encoder_tokens > 0) r.encoder_tokens = 21;
  }

  // Gives Muon to a third of the runs with AdamW that can have it. Draws no numbers, so that other
  // runs stay as they are.
  static void use_muon(compile::CompileRequest& r) {
    const bool chosen = (r.sequences + r.microbatches + r.layout.data) % 3 == 0;
    if (!chosen || r.optimizer.kind != OptimizerKind::kAdamW) return;
    if (compile::head_copies(r.model, r.layout) > 1) return;
    r.optimizer.kind = OptimizerKind::kMuon;
    r.optimizer.bf16_newton_schulz = r.sequences == 2;
    if (can_clip(r)) r.optimizer.qk_clip = 100;
  }

  // Stores moments in 8 bits in a quarter of the runs whose weights tensor-parallel ranks do not
  // divide: these models are too narrow for whole blocks on each of them. Draws no numbers either.
  static void use_8bit_moments(compile::CompileRequest& r) {
    const bool chosen = (r.sequences + r.microbatches + r.layout.pipeline) % 4 == 0;
    if (!chosen || r.layout.tensor > 1 || compile::head_copies(r.model, r.layout) > 1) return;
    const auto set = [](compile::OptimizerPolicy& o) {
      if (allows_8bit_moments(traits_of(o.kind))) o.moments = DType::kU8;
    };
    set(r.optimizer);
    for (compile::OptimizerGroup& g : r.groups) set(g.policy);
  }

  // Terms of the loss and means of weights, in some runs. Draws no numbers either.
  static void add_terms(compile::CompileRequest& r) {
    if ((r.sequences + r.layout.data) % 2 == 0) r.loss.z_loss = 1e-4;
    if ((r.sequences + r.layout.tensor) % 2 == 0) r.loss.label_smoothing = 0.1;
    if (r.microbatches % 3 == 1) r.average_decay = 0.9;
  }

  // Multi-token prediction, in some runs. Draws no numbers either.
  static void add_mtp(compile::CompileRequest& r) {
    if (!model::rule_of(r.model.family).may_have_mtp) return;
    if ((r.sequences + r.microbatches + r.model.layers) % 4 != 0) return;
    r.model.mtp_depth = r.model.layers % 2 + 1;
    r.loss.mtp_weight = 0.3;
  }

  // Optimizers of their own, for names that every family has.
  static std::vector<compile::OptimizerGroup> groups(const compile::OptimizerPolicy& base) {
    std::vector<compile::OptimizerPolicy> one_pass;
    for (const OptimizerKind kind : kOnePassOptimizers)
      if (kind != base.kind) one_pass.emplace_back(base).kind = kind;
    return {{{"*norm*"}, one_pass.front()}, {{"*.mlp.*", "embed.*"}, one_pass.back()}};
  }

  void experts(model::ModelConfig& m) {
    m.experts = one_of<int64_t>({4, 8});
    m.expert_feed_forward = one_of<int64_t>({0, 16});
    m.router.bias = number(0, 1) == 1;
    m.router.balance_loss = one_of<double>({0, 0.1});
  }

  void kinds_of_layers(model::ModelConfig& m) {
    const model::ModelFamily& family = model::rule_of(m.family);
    for (int64_t l = 0; l < m.layers; ++l) {
      if (family.has_experts && number(0, 2) == 0) m.dense_layers.push_back(l);
      if (family.has_rope && number(0, 2) == 0) m.no_rope_layers.push_back(l);
      if (!family.has_encoder && number(0, 1) == 0) m.wide_layers.push_back(l);
    }
    if (!m.wide_layers.empty()) m.wide_feed_forward = one_of<int64_t>({32, 64, 128, 256});
  }

  void layout(compile::Layout& l) {
    l.data = number(1, 4);
    l.tensor = one_of<int64_t>({1, 1, 2, 4});
    l.pipeline = number(1, 4);
    l.sequence_parallel = number(0, 1) == 1;
    l.pipeline_schedule = static_cast<compile::PipelineSchedule>(number(0, 3));
    if (l.pipeline_schedule == compile::PipelineSchedule::kInterleaved1F1B)
      l.interleave = number(1, 3);
    l.zero = number(0, 3);
    l.zero_group = number(0, 2);
    l.zero_reduce = number(0, 1) ? compile::ZeroReduce::kLast : compile::ZeroReduce::kEach;
    l.overlap = number(0, 3);
    l.recompute = one_of<std::string>({"none", "none", "selective", "full", "full:1"});
  }

  // Each layer to any chunk: some get none.
  std::vector<int64_t> spread(int64_t layers, int64_t chunks) {
    std::vector<int64_t> stages(static_cast<size_t>(chunks));
    for (int64_t l = 0; l < layers; ++l) ++stages[static_cast<size_t>(number(0, chunks - 1))];
    return stages;
  }

  std::mt19937_64 d_;
  bool kinds_;
  std::vector<model::Family> families_;
};

inline std::string text_of(const compile::CompileRequest& r) {
  const compile::Layout& l = r.layout;
  return fmt::format(
      "family {} key/value heads {} layers {}+{} tied {} dropout {} precision {} micro-batches {} "
      "| data {} tensor {} "
      "pipeline {} sequence_parallel {} schedule {} interleave {} zero {} group {} each {} overlap "
      "{} recompute {} offload {} products {} optimizer {} adapters {} frozen {} gradients {} "
      "reduced "
      "{} "
      "fused accumulation {} masks "
      "{} deallocated {} "
      "buckets {} stages {} no rope {} wide {} of {} experts {} of {} dense {} biases {} over {} "
      "overlapped {}",
      static_cast<int>(r.model.family), r.model.kv_heads, r.model.encoder_layers, r.model.layers,
      r.model.tied_embeddings, r.model.dropout, static_cast<int>(r.precision), r.microbatches,
      l.data, l.tensor, l.pipeline, l.sequence_parallel, static_cast<int>(l.pipeline_schedule),
      l.interleave, l.zero, l.zero_group, l.zero_reduce == compile::ZeroReduce::kEach, l.overlap,
      l.recompute, l.offload, name_of_entry(r.options.gemm_dtype),
      static_cast<int>(r.optimizer.kind), r.adapters.rank, fmt::join(r.frozen, " "),
      name_of_entry(r.options.grad_accum_dtype), name_of_entry(r.options.grad_reduce_dtype),
      r.options.fuse_grad_accumulation, name_of_entry(r.options.dropout_masks),
      r.options.deallocate_pipeline_outputs, r.options.bucket_bytes, fmt::join(l.stages, " "),
      fmt::join(r.model.no_rope_layers, " "), fmt::join(r.model.wide_layers, " "),
      r.model.wide_feed_forward, r.model.experts, r.model.expert_feed_forward,
      fmt::join(r.model.dense_layers, " "), r.model.router.bias, l.expert,
      r.options.ep_comm_overlap);
}

// One pointer a rank of the mesh: each runs its stage's program.
inline std::vector<const Program*> each_rank(const std::vector<Program>& stages) {
  std::vector<const Program*> ranks;
  const Mesh& mesh = stages[0].mesh;
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    ranks.push_back(&stages[static_cast<size_t>(coordinates_of(mesh, r)[AxisKind::kPipeline])]);
  return ranks;
}

}  // namespace tessera::testing
