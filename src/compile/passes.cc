// The table of passes, in the order in which they run. A pass has a name, the level that the
// program has after it (state.h), the condition under which it runs, the same condition as text for
// docs/passes.md, the function, and the strongest invariant that holds after it. The order,
// `compile --after PASS`, the timings, the documentation and the verification after each pass all
// read this one table, so they cannot disagree.
//
// A pass reads the whole state and changes its part. The order expresses dependencies: what changes
// the model comes before differentiation, so that its gradient follows; sharding comes after
// differentiation, so that it sees forward and backward alike; lowering comes last on the graph,
// because calls and buffers exist only after it.
#include "compile/passes.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/lower/lower.h"
#include "compile/memory/assign_buffers.h"
#include "compile/schedule/edit_schedule.h"
#include "compile/schedule/schedule_passes.h"
#include "compile/schedule/stage_layers.h"
#include "ir/verify.h"
#include "model/forward.h"

namespace tessera::compile {
namespace {

constexpr EnumArray<ProgramKind, const char*> kProgramKinds = {"train", "validate", "logits",
                                                               "decode"};

bool always(const Context&) { return true; }
bool trains(const Context& c) { return c.trains(); }
bool offloads_optimizer(const Context& c) {
  return parse_offload(c.request.layout.offload).optimizer;
}

bool overlaps_tensor(const Context& c) {
  return c.request.options.tp_comm_overlap && c.request.layout.tensor > 1;
}

bool overlaps_experts(const Context& c) {
  return c.request.options.ep_comm_overlap && c.request.layout.expert > 1;
}

void run_forward(State& s, const Context& c) {
  const CompileRequest& r = c.request;
  const int64_t copies = head_copies(r.model, r.layout);
  s.graph = model::forward(r.model, {r.sequences * r.layout.data, r.tokens, r.encoder_tokens,
                                     r.intra_document_masking, copies});
  s.graph.mesh = mesh_of(r.layout, copies);
}

void run_assign_stages(State& s, const Context& c) {
  s.share = assign_stages(s.graph, c.request);
  s.share.stage = c.request.stage;
}

void run_lower(State& s, const Context& c) {
  const StagesOfBlocks holders = holders_of(s.graph, s.share);
  s.lowered = lower(std::move(s.graph), c, holders);
  s.graph = Graph();
}

void run_schedule(State& s, const Context& c) {
  Program& p = s.lowered.program;
  p = schedule(s.lowered, c, s.share);
  p.name = kProgramKinds[c.request.kind];
  p.ordered_transfers = c.target.ordered_transfers;
}

bool rings(const Context& c) {
  return c.request.layout.context > 1 && c.request.layout.context_method == ContextMethod::kRing;
}

bool assigns_optimizers(const Context& c) {
  return !c.request.groups.empty() || traits_of(c.request.optimizer.kind).matrices;
}

bool clips_scores(const Context& c) {
  const auto& groups = c.request.groups;
  return c.trains() && (c.request.optimizer.qk_clip > 0 ||
                        std::any_of(groups.begin(), groups.end(),
                                    [](const OptimizerGroup& g) { return g.policy.qk_clip > 0; }));
}

void run_zero(State& s, const Context& c) { zero(s.lowered.program, s.lowered, c.zero); }

constexpr Pass kPasses[] = {
    {"forward", Level::kModel, always, "always", run_forward, Invariant::kTypes},
    {"add_adapters", Level::kModel, [](const Context& c) { return c.request.adapters.rank > 0; },
     "`lora.rank`",
     [](State& s, const Context& c) { add_adapters(s.graph, c.request.adapters, c.request.model); },
     Invariant::kTypes},
    {"add_preference_loss", Level::kModel,
     [](const Context& c) { return c.request.preference.has_value() && !c.generates(); },
     "`objective.kind`",
     [](State& s, const Context& c) { add_preference_loss(s.graph, *c.request.preference); },
     Invariant::kTypes},
    {"freeze", Level::kModel, [](const Context& c) { return !c.request.frozen.empty(); },
     "`optimizer.freeze`", [](State& s, const Context& c) { freeze(s.graph, c.request.frozen); },
     Invariant::kTypes},
    {"assign_optimizers", Level::kModel, assigns_optimizers,
     "`optimizer.groups`, `optimizer.kind: muon`, `model.mup`",
     [](State& s, const Context& c) {
       assign_optimizers(s.graph, c.request.groups, c.request.optimizer);
     },
     Invariant::kTypes},
    {"clip_scores", Level::kModel, clips_scores, "`optimizer.qk_clip`",
     [](State& s, const Context& c) { clip_scores(s.graph, c.request); }, Invariant::kTypes},
    {"drop_mtp", Level::kModel,
     [](const Context& c) { return c.generates() && c.request.model.mtp_depth > 0; },
     "`model.mtp_depth` in programs `logits` and `decode`",
     [](State& s, const Context&) { drop_mtp(s.graph); }, Invariant::kTypes},
    {"keep_logits", Level::kModel, [](const Context& c) { return c.generates(); },
     "programs `logits` and `decode`", [](State& s, const Context&) { keep_logits(s.graph); },
     Invariant::kTypes},
    {"decode", Level::kModel,
     [](const Context& c) { return c.request.kind == ProgramKind::kDecode; }, "program `decode`",
     [](State& s, const Context& c) {
       const CompileRequest& r = c.request;
       decode(s.graph, r.cache_tokens > 0 ? r.cache_tokens : r.model.context,
              r.reuse_encoder_output);
     },
     Invariant::kTypes},
    {"add_loss_terms", Level::kModel,
     [](const Context& c) {
       return c.trains() && (c.request.loss != LossPolicy() || c.request.model.mtp_depth > 0);
     },
     "`loss.z_loss`, `loss.label_smoothing`, `model.mtp_depth`",
     [](State& s, const Context& c) { add_loss_terms(s.graph, c.request.loss); },
     Invariant::kTypes},
    {"unfuse_cross_entropy", Level::kModel,
     [](const Context& c) {
       return c.request.options.cross_entropy == CrossEntropyKind::kUnfused && !c.generates();
     },
     "`compiler.cross_entropy: unfused`",
     [](State& s, const Context&) { unfuse_cross_entropy(s.graph); }, Invariant::kTypes},
    {"materialize_attention", Level::kModel,
     [](const Context& c) {
       return c.request.options.attention == AttentionKind::kUnfused &&
              c.request.kind != ProgramKind::kDecode;
     },
     "`compiler.attention: unfused`",
     [](State& s, const Context& c) {
       materialize_attention(
           s.graph, c.request.options.attention_scores_dtype == AttentionScoresDType::kCompute);
     },
     Invariant::kTypes},
    {"store_dropout_masks", Level::kModel,
     [](const Context& c) {
       return c.request.options.dropout_masks == DropoutMaskPolicy::kStore && c.trains();
     },
     "`compiler.dropout_masks: store`",
     [](State& s, const Context&) { store_dropout_masks(s.graph); }, Invariant::kTypes},
    {"save_expert_pairs", Level::kModel,
     [](const Context& c) {
       return c.request.model.experts > 0 && c.trains() && c.request.layout.expert == 1;
     },
     "`model.experts` with `layout.expert: 1`",
     [](State& s, const Context&) { save_expert_pairs(s.graph); }, Invariant::kTypes},
    {"drop_router_losses", Level::kModel,
     [](const Context& c) { return c.request.model.experts > 0 && c.generates(); },
     "`model.experts` in programs `logits` and `decode`",
     [](State& s, const Context&) { drop_router_losses(s.graph); }, Invariant::kTypes},
    {"drop_expert_capacity", Level::kModel,
     [](const Context& c) {
       return c.request.model.experts > 0 && c.request.model.router.capacity_factor > 0 &&
              c.generates();
     },
     "`model.router.capacity_factor` in programs `logits` and `decode`",
     [](State& s, const Context&) { drop_expert_capacity(s.graph); }, Invariant::kTypes},
    {"apply_precision", Level::kTyped, always, "always",
     [](State& s, const Context& c) { apply_precision(s.graph, c.request.precision); },
     Invariant::kTypes},
    {"gather_keys", Level::kTyped,
     [](const Context& c) {
       return c.request.layout.context > 1 &&
              c.request.layout.context_method != ContextMethod::kHeads;
     },
     "`layout.context` with `layout.context_method: gather` or `ring`",
     [](State& s, const Context& c) {
       gather_keys(s.graph, rings(c) ? c.request.layout.context : 0);
     },
     Invariant::kTypes},
    {"shard", Level::kSharded, always, "always",
     [](State& s, const Context& c) { shard(s.graph, c.request.layout); }, Invariant::kSignatures},
    {"keep_answer_sums", Level::kSharded,
     [](const Context& c) { return c.request.keep_answer_sums; },
     "the pass over the data for `objective.reference`",
     [](State& s, const Context&) { keep_answer_sums(s.graph); }, Invariant::kSignatures},
    {"fuse_bias_gelu", Level::kSharded,
     [](const Context& c) { return c.request.options.fuse_bias_gelu; }, "`compiler.fuse_bias_gelu`",
     [](State& s, const Context&) { fuse_bias_gelu(s.graph); }, Invariant::kSignatures},
    {"differentiate", Level::kDifferentiated, trains, "program `train`",
     [](State& s, const Context&) { differentiate(s.graph); }, Invariant::kSignatures},
    {"scale_loss", Level::kDifferentiated,
     [](const Context& c) { return c.trains() && c.request.precision == Precision::kFp16; },
     "`precision: fp16`", [](State& s, const Context&) { scale_loss(s.graph); },
     Invariant::kSignatures},
    {"remove_mark_shared", Level::kDifferentiated, always, "always",
     [](State& s, const Context&) { remove_mark_shared(s.graph); }, Invariant::kSameBytes},
    {"recompute_selective", Level::kDifferentiated,
     [](const Context& c) { return c.trains() && c.recompute.selective; },
     "`layout.recompute: selective`",
     [](State& s, const Context& c) {
       recompute_selective(s.graph, c.request.options.selective_recompute);
     },
     Invariant::kSameBytes},
    {"split_backward", Level::kDifferentiated,
     [](const Context& c) {
       return c.trains() && c.request.layout.pipeline > 1 &&
              c.request.layout.pipeline_schedule == PipelineSchedule::kZeroBubble;
     },
     "`layout.pipeline_schedule: zero_bubble`",
     [](State& s, const Context&) { split_backward(s.graph); }, Invariant::kSameBytes},
    {"narrow_gradients", Level::kDifferentiated,
     [](const Context& c) {
       return c.trains() && c.request.options.grad_accum_dtype == GradAccumDType::kWeight;
     },
     "`compiler.grad_accum_dtype: weight`",
     [](State& s, const Context& c) { narrow_gradients(s.graph, type_of(c.request.precision)); },
     Invariant::kSameBytes},
    {"separate_accumulation", Level::kDifferentiated,
     [](const Context& c) { return c.trains() && !c.request.options.fuse_grad_accumulation; },
     "`compiler.fuse_grad_accumulation: false`",
     [](State& s, const Context& c) {
       separate_accumulation(s.graph, type_of(c.request.precision));
     },
     Invariant::kSameBytes},
    {"multiply_in_fp8", Level::kDifferentiated,
     [](const Context& c) {
       return c.request.options.gemm_dtype == GemmDType::kFp8 && !c.generates();
     },
     "`compiler.gemm_dtype: fp8`", [](State& s, const Context&) { multiply_in_fp8(s.graph); },
     Invariant::kSameBytes},
    {"fuse_residual_norm", Level::kDifferentiated,
     [](const Context& c) { return c.request.options.fuse_residual_norm; },
     "`compiler.fuse_residual_norm`", [](State& s, const Context&) { fuse_residual_norm(s.graph); },
     Invariant::kSameBytes},
    {"remove_dead_ops", Level::kDifferentiated, always, "always",
     [](State& s, const Context&) { remove_dead_ops(s.graph); }, Invariant::kSameBytes},
    {"rotate_keys", Level::kDifferentiated, rings,
     "`layout.context` with `layout.context_method: ring`",
     [](State& s, const Context&) { rotate_keys(s.graph); }, Invariant::kSameBytes},
    {"assign_queues", Level::kDifferentiated, overlaps_tensor, "`compiler.tp_comm_overlap`",
     [](State& s, const Context&) { assign_queues(s.graph); }, Invariant::kSameBytes},
    {"assign_expert_queue", Level::kDifferentiated, overlaps_experts,
     "`compiler.ep_comm_overlap` with `layout.expert`",
     [](State& s, const Context&) { assign_expert_queue(s.graph); }, Invariant::kSameBytes},
    {"chunk_layers", Level::kDifferentiated,
     [](const Context& c) { return overlaps_tensor(c) && c.request.options.tp_comm_chunks > 1; },
     "`compiler.tp_comm_overlap`",
     [](State& s, const Context& c) { chunk_layers(s.graph, c.request.options.tp_comm_chunks); },
     Invariant::kSameBytes},
    {"order_segments", Level::kDifferentiated,
     [](const Context& c) { return overlaps_tensor(c) || overlaps_experts(c); },
     "`compiler.tp_comm_overlap`, `compiler.ep_comm_overlap`",
     [](State& s, const Context&) { order_segments(s.graph); }, Invariant::kSameBytes},
    {"quantize_weights", Level::kDifferentiated,
     [](const Context& c) { return c.request.adapters.quantize == Quantization::kNf4; },
     "`lora.quantize: nf4`", [](State& s, const Context&) { quantize_weights(s.graph); },
     Invariant::kSameBytes},
    {"assign_stages", Level::kDifferentiated, always, "always", run_assign_stages,
     Invariant::kSameBytes},
    {"drop_sharded_mtp", Level::kDifferentiated,
     [](const Context& c) {
       return c.request.kind == ProgramKind::kValidate && c.request.model.mtp_depth > 0;
     },
     "`model.mtp_depth` in the program `validate`",
     [](State& s, const Context&) { drop_mtp(s.graph); }, Invariant::kSameBytes},
    {"lower", Level::kSegments, always, "always", run_lower, Invariant::kLayout},
    {"move_state", Level::kSegments, offloads_optimizer, "`layout.offload: optimizer`",
     [](State& s, const Context&) { move_state(s.lowered); }, Invariant::kLayout},
    {"schedule", Level::kCalls, always, "always", run_schedule, Invariant::kCalls},
    {"zero", Level::kCalls, always, "always", run_zero, Invariant::kCalls},
    {"offload", Level::kCalls,
     [](const Context& c) {
       return c.trains() && parse_offload(c.request.layout.offload).layers > 0;
     },
     "`layout.offload: activations`",
     [](State& s, const Context& c) {
       offload(s.lowered, parse_offload(c.request.layout.offload), c.request.layout.overlap);
     },
     Invariant::kLayout},
    {"copy_state", Level::kCalls,
     [](const Context& c) { return c.trains() && offloads_optimizer(c); },
     "`layout.offload: optimizer`", [](State& s, const Context&) { copy_state(s.lowered.program); },
     Invariant::kCalls},
    {"overlap", Level::kCalls, [](const Context& c) { return c.request.layout.overlap > 0; },
     "`layout.overlap`",
     [](State& s, const Context& c) { overlap(s.lowered.program, c.request.layout.overlap); },
     Invariant::kCalls},
    {"drop_uncalled", Level::kCalls, always, "always",
     [](State& s, const Context&) { drop_uncalled(s.lowered.program); }, Invariant::kCalls},
    {"assign_buffers", Level::kPlaced, always, "always",
     [](State& s, const Context& c) {
       assign_buffers(s.lowered.program, {.alignment = c.target.alignment});
     },
     Invariant::kPlaced},
};

std::atomic<bool> verifies = TESSERA_VERIFY_PASSES;

// The table is ordered: passes up to the segments are the same for all stages, later ones depend on
// the stage.
auto block_pass_count() {
  const auto is_of_stage = [](const Pass& p) { return p.level > Level::kSegments; };
  return std::find_if(std::begin(kPasses), std::end(kPasses), is_of_stage) - std::begin(kPasses);
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }
std::span<const Pass> block_passes() { return all_passes().first(block_pass_count()); }
std::span<const Pass> stage_passes() { return all_passes().subspan(block_pass_count()); }

std::span<const Pass> passes_through(std::string_view name) {
  const std::span<const Pass> all = all_passes();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == name) return all.first(i + 1);
  return {};
}

void verify_after_each_pass(bool on) { verifies = on; }

void run_passes(State& state, const Context& context, std::span<const Pass> passes,
                const PassObserver& observe) {
  for (const Pass& pass : passes) {
    if (!pass.when(context)) continue;
    pass.run(state, context);
    state.level = pass.level;
    if (verifies) {
      std::vector<std::string> faults = verify(state, pass.leaves);
      if (faults.empty() && pass.leaves == Invariant::kPlaced)
        faults = verify_target(state.lowered.program, context.target);
      CHECK(faults.empty(), "after pass {}: {}", pass.name, faults.front());
    }
    if (observe) observe(pass, state);
  }
}

}  // namespace tessera::compile
