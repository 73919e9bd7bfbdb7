#include "tests/ir/op_cases.h"

#include "ir/op.h"
#include "ir/state.h"

namespace tessera::testing {
namespace {

In x(Shape s, DType t = DType::kF32) { return {t, std::move(s)}; }
In weight(Shape s, DType t = DType::kF32) { return {t, std::move(s), Role::kWeight}; }
In ids(Shape s) { return {DType::kI32, std::move(s), Role::kBatch}; }
In samples() { return {DType::kI64, {2}, Role::kBatch}; }
In step() { return {DType::kF64, {kStepSize}, Role::kStep}; }
// What is known of rows and has no gradient.
In known(Shape s) { return {DType::kF32, std::move(s), Role::kBatch}; }
In report() { return {DType::kF64, {kReportSize}, Role::kReport}; }

constexpr DType kHalf = DType::kBF16;

// B = 2 sequences of T = 4 tokens, width 16 or K = 3 heads of G = 1 query and D = 5.
const Shape kQkv = {2, 4, 3, 3, 5}, kOut = {2, 4, 3, 5}, kLse = {2, 3, 4}, kPairs = {2, 3, 4, 4};

std::vector<Case> products() {
  return {
      {"matmul", Matmul{}, {x({2, 4, 16}), weight({32, 16})}, {x({2, 4, 32})}, 2.0 * 8 * 16 * 32},
      {"matmul of heads",
       Matmul{.contract = 2},
       {x(kOut), weight({16, 3, 5})},
       {x({2, 4, 16})},
       2.0 * 8 * 15 * 16},
      {"matmul to heads",
       Matmul{},
       {x({2, 4, 16}, kHalf), weight({3, 3, 5, 16}, kHalf)},
       {x(kQkv, kHalf)},
       2.0 * 8 * 16 * 45},
      {"matmul to f32",
       Matmul{.out = DType::kF32},
       {x({2, 4, 16}, kHalf), weight({32, 16}, kHalf)},
       {x({2, 4, 32})},
       2.0 * 8 * 16 * 32},
      {"matmul_grad_input",
       MatmulGradInput{},
       {x({2, 4, 32}), weight({32, 16})},
       {x({2, 4, 16})},
       2.0 * 8 * 16 * 32},
      {"matmul_grad_weight",
       MatmulGradWeight{},
       {x({2, 4, 32}, kHalf), x({2, 4, 16}, kHalf)},
       {x({32, 16})},
       2.0 * 8 * 16 * 32},
      {"cross_entropy", CrossEntropy{}, {x({2, 4, 32}), ids({2, 4})}, {report()}},
      {"cross_entropy with gradient",
       CrossEntropy{.gradient = true},
       {x({2, 4, 32}), ids({2, 4})},
       {report(), x({2, 4, 32})}},
      {"cross_entropy with a loss scale",
       CrossEntropy{.gradient = true, .scaled = true},
       {x({2, 4, 32}), ids({2, 4}), step()},
       {report(), x({2, 4, 32})}},
      {"linear_cross_entropy",
       LinearCrossEntropy{},
       {x({2, 4, 16}), weight({32, 16}), ids({2, 4})},
       {report()},
       2.0 * 8 * 16 * 32},
      {"linear_cross_entropy with gradient",
       LinearCrossEntropy{.gradient = true},
       {x({2, 4, 16}, kHalf), weight({32, 16}, kHalf), ids({2, 4})},
       {report(), x({2, 4, 16}, kHalf), x({32, 16})},
       3 * 2.0 * 8 * 16 * 32},
      {"linear_cross_entropy with a frozen weight and a loss scale",
       LinearCrossEntropy{.gradient = true, .frozen = true, .scaled = true},
       {x({2, 4, 16}, kHalf), weight({32, 16}, kHalf), ids({2, 4}), step()},
       {report(), x({2, 4, 16}, kHalf)},
       2 * 2.0 * 8 * 16 * 32},
      {"cross_entropy with a soft cap",
       CrossEntropy{.soft_cap = 30, .gradient = true},
       {x({2, 4, 32}), ids({2, 4})},
       {report(), x({2, 4, 32})}},
      {"linear_cross_entropy with a soft cap",
       LinearCrossEntropy{.soft_cap = 30, .gradient = true},
       {x({2, 4, 16}), weight({32, 16}), ids({2, 4})},
       {report(), x({2, 4, 16}), x({32, 16})},
       3 * 2.0 * 8 * 16 * 32},
      {"logits_max", LogitsMax{}, {x({2, 4, 32})}, {x({2, 4})}},
      {"logits_max with a soft cap", LogitsMax{.soft_cap = 30}, {x({2, 4, 32})}, {x({2, 4})}},
      {"logits_sums", LogitsSums{}, {x({2, 4, 32}), x({2, 4}), ids({2, 4})}, {x({2, 4, 2})}},
      {"divided_cross_entropy",
       DividedCrossEntropy{},
       {x({2, 4, 32}), known({2, 4}), known({2, 4, 2}), ids({2, 4})},
       {report()}},
      {"divided_cross_entropy with gradient",
       DividedCrossEntropy{.gradient = true},
       {x({2, 4, 32}), known({2, 4}), known({2, 4, 2}), ids({2, 4})},
       {report(), x({2, 4, 32})}},
  };
}

// 4 experts with inner width 6. Each of 8 tokens chooses 2, so there are 4 rows per expert.
std::vector<Case> experts() {
  const Shape z = {2, 4, 4}, chosen = {2, 4, 2}, s = {2, 4, 16};
  const In choice = ids(chosen), up = weight({4, 6, 2, 16}), down = weight({4, 16, 6});
  const double one = 2.0 * 16 * 6 * 16;  // GEMM of 16 rows with one of the three matrices
  return {
      {"route", Route{.chosen = 2}, {x(z)}, {x(chosen), choice, x(z)}},
      {"route with a bias and groups",
       Route{.chosen = 2,
             .score = RouterScore::kSigmoid,
             .groups = 2,
             .groups_chosen = 1,
             .bias = true},
       {x(z), weight({4})},
       {x(chosen), choice, x(z)}},
      {"route_grad", RouteGrad{}, {x(z), choice, x(chosen)}, {x(z)}},
      {"router_load", RouterLoad{.experts = 4}, {choice}, {x({4})}},
      {"balance_update", BalanceUpdate{.rate = 0.001}, {x({32}), report()}, {x({32})}},
      {"router_loss",
       RouterLoss{{.balance = 0.01, .z = 0.001}},
       {x(z), known(z), choice, ids({2, 4})},
       {report()}},
      {"router_loss_grad", RouterLossGrad{}, {x(z), known(z), choice, ids({2, 4})}, {x(z)}},
      {"router_loss_grad with a loss scale",
       RouterLossGrad{.of = {}, .scaled = true},
       {x(z), known(z), choice, ids({2, 4}), step()},
       {x(z)}},
      {"experts", Experts{.experts = 4}, {x(s), choice, x(chosen), up, down}, {x(s)}, 3 * one},
      {"experts that save",
       Experts{.experts = 4, .saves = true},
       {x(s, kHalf), choice, x(chosen), weight({4, 6, 2, 16}, kHalf), weight({4, 16, 6}, kHalf)},
       {x(s, kHalf), x({2, 4, 2, 6, 2}, kHalf)},
       3 * one},
      {"experts_grad",
       ExpertsGrad{.experts = 4},
       {x(s), choice, x(chosen), up, down, x(s)},
       {x(s), x(chosen), x({4, 6, 2, 16}), x({4, 16, 6})},
       8 * one},
      {"experts_grad of saved pairs",
       ExpertsGrad{.experts = 4, .saved = true},
       {x(s), choice, x(chosen), up, down, x(s), x({2, 4, 2, 6, 2})},
       {x(s), x(chosen), x({4, 6, 2, 16}), x({4, 16, 6})},
       6 * one},
  };
}

std::vector<Case> attentions() {
  const double causal = 2 * 3 * (1 + 2 + 3 + 4);  // pairs of a query and a key before it
  const double all = 2 * 3 * 4 * 4, product = 2 * 5;
  const double window = 2 * 3 * (1 + 2 + 2 + 2);  // of the pairs, those in a window of two keys
  return {
      {"head_norm",
       HeadNorm{},
       {x(kQkv, kHalf), weight({5}, kHalf), weight({5}, kHalf)},
       {x(kQkv, kHalf)}},
      {"head_norm over all heads",
       HeadNorm{.unit_offset = true, .whole = true},
       {x(kQkv), weight({3, 1, 5}), weight({3, 5}), known({2, 4, 2})},
       {x(kQkv)}},
      {"head_norm_grad",
       HeadNormGrad{},
       {x(kQkv), weight({5}), weight({5}), x(kQkv)},
       {x(kQkv), x({5}), x({5})}},
      {"head_norm_grad over all heads",
       HeadNormGrad{{.whole = true}},
       {x(kQkv, kHalf), weight({3, 1, 5}, kHalf), weight({3, 5}, kHalf), x(kQkv, kHalf),
        known({2, 4, 2})},
       {x(kQkv, kHalf), x({3, 1, 5}), x({3, 5}), x({2, 4, 2})}},
      {"head_squares", HeadSquares{}, {x(kQkv, kHalf)}, {x({2, 4, 2})}},
      {"head_squares_grad", HeadSquaresGrad{}, {x(kQkv), x({2, 4, 2}), x(kQkv)}, {x(kQkv)}},
      {"rotary with yarn",
       Rotary{.dims = 4,
              .base = 1e4,
              .scaling = RopeScaling::kYarn,
              .factor = 8,
              .low = 1,
              .high = 32,
              .context = 64,
              .truncate = false,
              .magnitude = 1.2},
       {x(kQkv), ids({2, 4})},
       {x(kQkv)}},
      {"rotary with longrope",
       Rotary{.dims = 4,
              .base = 1e4,
              .scaling = RopeScaling::kLongrope,
              .dividers = {1.5, 2},
              .magnitude = 1.2},
       {x(kQkv), ids({2, 4})},
       {x(kQkv)}},
      {"attention with a window and a soft cap",
       Attention{.window = 2, .soft_cap = 50},
       {x(kQkv)},
       {x(kOut), x(kLse)},
       2 * product * window},
      {"attention_grad with a window and a soft cap",
       AttentionGrad{{.window = 2, .soft_cap = 50}},
       {x(kQkv), x(kOut), x(kLse), x(kOut)},
       {x(kQkv)},
       5 * product * window},
      {"cached_attention with a window and a soft cap",
       CachedAttention{.context = 8, .window = 3, .soft_cap = 50},
       {x({2, 1, 3, 3, 5}), ids({2, 1})},
       {x({2, 1, 3, 5}), x({2, 8, 2, 3, 5})},
       2 * product * 2 * 3 * 3},
      {"attention_scores with a window and a soft cap",
       AttentionScores{.window = 2, .soft_cap = 50},
       {x(kQkv)},
       {x(kPairs)},
       product * all},
      {"attention_scores_grad with a soft cap",
       AttentionScoresGrad{{.soft_cap = 50}},
       {x(kQkv), x(kPairs), x(kQkv)},
       {x(kQkv)},
       3 * product * all},
      {"rotary", Rotary{.dims = 4, .base = 1e4}, {x(kQkv, kHalf), ids({2, 4})}, {x(kQkv, kHalf)}},
      {"repeat_heads",
       RepeatHeads{.copies = 2},
       {x({2, 4, 3, 2, 5}, kHalf)},
       {x({2, 4, 6, 2, 5}, kHalf)}},
      {"repeat_heads_grad",
       RepeatHeadsGrad{.copies = 2},
       {x({2, 4, 6, 2, 5})},
       {x({2, 4, 3, 2, 5})}},
      {"join_heads", JoinHeads{}, {x({2, 4, 3, 1, 5}), x({2, 4, 3, 2, 5})}, {x(kQkv)}},
      {"split_heads", SplitHeads{}, {x(kQkv)}, {x({2, 4, 3, 1, 5}), x({2, 4, 3, 2, 5})}},
      {"attention", Attention{}, {x(kQkv)}, {x(kOut), x(kLse)}, 2 * product * causal},
      {"attention with dropout",
       Attention{.dropout = 0.1},
       {x(kQkv, kHalf), samples(), step()},
       {x(kOut, kHalf), x(kLse)},
       2 * product * causal},
      {"attention_grad",
       AttentionGrad{},
       {x(kQkv), x(kOut), x(kLse), x(kOut)},
       {x(kQkv)},
       5 * product * causal},
      {"attention within documents",
       Attention{.mask = Mask::kDocuments},
       {x(kQkv), ids({2, 4})},
       {x(kOut), x(kLse)},
       2 * product * causal},
      {"attention with biases, to all that is no padding",
       Attention{.non_causal = true, .bias_distance = 128, .mask = Mask::kPadding},
       {x(kQkv), weight({3, 8}), ids({2, 4})},
       {x(kOut), x(kLse)},
       2 * product * all},
      {"attention across, with dropout",
       Attention{.separate_kv = true, .non_causal = true, .mask = Mask::kPadding, .dropout = 0.1},
       {x({2, 4, 3, 1, 5}), x({2, 6, 3, 2, 5}), ids({2, 6}), samples(), step()},
       {x(kOut), x(kLse)},
       2 * product * all * 6 / 4},
      {"attention_grad across",
       AttentionGrad{{.separate_kv = true, .non_causal = true, .bias_distance = 128}},
       {x({2, 4, 3, 1, 5}), x(kOut), x(kLse), x(kOut), x({2, 6, 3, 2, 5}), weight({3, 8})},
       {x({2, 4, 3, 1, 5}), x({2, 6, 3, 2, 5}), x({3, 8})},
       5 * product * all * 6 / 4},
      {"cached_attention",
       CachedAttention{.context = 8},
       {x({2, 1, 3, 3, 5}), ids({2, 1})},
       {x({2, 1, 3, 5}), x({2, 8, 2, 3, 5})},
       2 * product * 2 * 3 * 8},
      {"cached_attention across",
       CachedAttention{.context = 8, .separate_kv = true, .bias_distance = 128},
       {x({2, 1, 3, 1, 5}), ids({2, 1}), x({2, 1, 3, 2, 5}), weight({3, 8})},
       {x({2, 1, 3, 5}), x({2, 8, 2, 3, 5})},
       2 * product * 2 * 3 * 8},
      {"attention_scores", AttentionScores{}, {x(kQkv, kHalf)}, {x(kPairs)}, product * all},
      {"attention_scores_grad",
       AttentionScoresGrad{},
       {x(kQkv), x(kPairs), x(kQkv)},
       {x(kQkv)},
       2 * product * all},
      {"softmax", Softmax{}, {x(kPairs)}, {x(kPairs)}},
      {"softmax_grad", SoftmaxGrad{}, {x(kPairs), x(kPairs)}, {x(kPairs)}},
      {"attention_mix",
       AttentionMix{},
       {x(kPairs), x(kQkv, kHalf)},
       {x(kOut, kHalf)},
       product * all},
      {"attention_mix_grad",
       AttentionMixGrad{},
       {x(kPairs), x(kQkv), x(kOut)},
       {x(kPairs), x(kQkv)},
       2 * product * all},
  };
}

std::vector<Case> sweeps() {
  const Shape s = {2, 4, 16}, v = {16}, stats = {2, 4, 2};
  return {
      {"embedding", Embedding{}, {ids({2, 4}), weight({32, 16}, kHalf)}, {x(s, kHalf)}},
      {"embedding_grad", EmbeddingGrad{.rows = 32}, {ids({2, 4}), x(s, kHalf)}, {x({32, 16})}},
      {"norm", Norm{}, {x(s, kHalf), weight(v, kHalf), weight(v, kHalf)}, {x(s, kHalf), x(stats)}},
      {"norm of a sum",
       Norm{.terms = 2, .biases = 1},
       {x(s), x(s), weight(v), weight(v), weight(v)},
       {x(s), x(stats), x(s)}},
      {"norm_grad", NormGrad{}, {x(s), x(stats), weight(v), x(s)}, {x(s), x(v), x(v)}},
      {"norm_grad that adds",
       NormGrad{.add = true},
       {x(s), x(stats), weight(v), x(s), x(s)},
       {x(s), x(v), x(v)}},
      {"rms_norm", RmsNorm{}, {x(s, kHalf), weight(v, kHalf)}, {x(s, kHalf), x(stats)}},
      {"rms_norm of a sum", RmsNorm{.terms = 2}, {x(s), x(s), weight(v)}, {x(s), x(stats), x(s)}},
      {"rms_norm with a unit offset",
       RmsNorm{.unit_offset = true},
       {x(s), weight(v)},
       {x(s), x(stats)}},
      {"rms_norm_grad", RmsNormGrad{}, {x(s), x(stats), weight(v), x(s)}, {x(s), x(v)}},
      {"rms_norm_grad that adds",
       RmsNormGrad{.add = true},
       {x(s), x(stats), weight(v), x(s), x(s)},
       {x(s), x(v)}},
      {"gated_activation",
       GatedActivation{.form = GateForm::kSilu},
       {x({2, 4, 16, 2}, kHalf)},
       {x(s, kHalf)}},
      {"gated_activation_grad",
       GatedActivationGrad{.form = GateForm::kSilu},
       {x({2, 4, 16, 2}), x(s)},
       {x({2, 4, 16, 2})}},
      {"gelu", Gelu{.form = GeluForm::kErf}, {x(s)}, {x(s)}},
      {"gelu with bias", Gelu{.form = GeluForm::kTanh, .bias = true}, {x(s), weight(v)}, {x(s)}},
      {"gelu_grad", GeluGrad{{.form = GeluForm::kErf}}, {x(s), x(s)}, {x(s)}},
      {"gelu_grad with bias",
       GeluGrad{{.form = GeluForm::kErf, .bias = true}},
       {x(s, kHalf), weight(v, kHalf), x(s, kHalf)},
       {x(s, kHalf), x(v)}},
      {"sum", Sum{.terms = 2}, {x(s), x(s), weight(v)}, {x(s)}},
      {"sum with bias of heads", Sum{.terms = 1}, {x(kQkv), weight({3, 3, 5})}, {x(kQkv)}},
      {"scale", Scale{.factor = 0.5}, {x(s, kHalf)}, {x(s, kHalf)}},
      {"scale by a rounded factor",
       Scale{.factor = 55.4, .rounded = true},
       {x(s, kHalf)},
       {x(s, kHalf)}},
      {"soft_cap", SoftCap{.cap = 30}, {x(s)}, {x(s)}},
      {"accumulate", Accumulate{}, {x(s, kHalf)}, {x(s)}},
      {"accumulate into halves", Accumulate{.accum_dtype = DType::kBF16}, {x(s)}, {x(s, kHalf)}},
      {"bias_grad", BiasGrad{.dims = 1, .count = 2}, {x(s, kHalf)}, {x(v), x(v)}},
      {"dropout", Dropout{.p = 0.1, .key = 1}, {x(s), samples(), step()}, {x(s)}},
      {"dropout with its mask",
       Dropout{.p = 0.1, .key = 1, .mask = true},
       {x(s, kHalf), samples(), step()},
       {x(s, kHalf), x(s, DType::kU8)}},
      {"dropout_grad", DropoutGrad{.p = 0.1}, {x(s), x(s, DType::kU8)}, {x(s)}},
      {"cast", Cast{.to = DType::kBF16}, {x(s)}, {x(s, kHalf)}},
      {"copy", Copy{}, {x(s)}, {x(s)}},
  };
}

// The update of each one-pass optimizer, with and without a first moment where that may be left
// out.
std::vector<Case> one_pass_updates() {
  const Shape s = {32, 16};
  std::vector<Case> cases;
  for (const OptimizerKind kind : kOnePassOptimizers)
    for (const double beta1 : {0.0, 0.9}) {
      const OptimizerTraits& o = traits_of(kind);
      const size_t moments = o.moment2 ? 2 : (o.moment1 || beta1 > 0 ? 1 : 0);
      cases.push_back({fmt::format("{} with beta1 {}", o.name, beta1),
                       one_pass_update(kind, {.beta1 = beta1}),
                       {x(s), step(), report()},
                       std::vector<In>(1 + moments, x(s))});
    }
  return cases;
}

std::vector<Case> updates() {
  const Shape s = {32, 16};
  return {
      {"clear", Clear{}, {}, {report()}},
      {"pack", Pack{.rows = 64, .bytes = 4096}, {weight(s)}, {x({4096}, DType::kU8)}},
      {"squares", Squares{}, {x(s)}, {report()}},
      {"clip", Clip{.norm = 1.0}, {report(), step()}, {report()}},
      {"adamw", Adamw{}, {x(s), step(), report()}, {x(s), x(s), x(s)}},
      {"adamw with master",
       Adamw{{.master = true}},
       {x(s), step(), report()},
       {x(s, kHalf), x(s), x(s), x(s)}},
      {"adamw all in bf16",
       Adamw{{.weights = DType::kBF16, .moments = DType::kBF16}},
       {x(s), step(), report()},
       {x(s, kHalf), x(s, kHalf), x(s, kHalf)}},
      {"adafactor_sums",
       AdafactorSums{{.sums = 192, .factors = 128, .weights_held = 64}},
       {x(s), x(s), report()},
       {x({192}, DType::kF64)}},
      {"adafactor_squares",
       AdafactorSquares{{.sums = 192, .factors = 128, .weights_held = 64}},
       {x(s), step(), report(), x({192}, DType::kF64)},
       {x({128}), x({64}, DType::kF64)}},
      {"adafactor",
       Adafactor{{.master = true}},
       {x(s), step(), report(), x({192}, DType::kF64), x({128}), x({64}, DType::kF64)},
       {x(s, kHalf), x(s)}},
      {"muon_direction",
       MuonDirection{.elements = 1024, .momentum = 0.95, .type = DType::kBF16},
       {x(s), x(s), report()},
       {x({1024}, kHalf)}},
      {"newton_schulz",
       NewtonSchulz{.steps = 3},
       {x({2, 16, 32})},
       {x({2, 16, 32})},
       3 * 2 * 2.0 * (16 * 16 * 32 + 16 * 16 * 16 + 16 * 32 * 16)},
      {"muon",
       Muon{{.master = true}},
       {x(s), step(), report(), x({1024})},
       {x(s, kHalf), x(s), x(s)}},
  };
}

std::vector<Case> communications() {
  const Shape s = {2, 4, 16};
  const GroupRef tensor = GroupRef::along({AxisKind::kTensor});
  return {
      {"all_reduce", AllReduce{.over = tensor}, {x(s, kHalf)}, {x(s, kHalf)}},
      {"reduce_scatter", ReduceScatter{.over = tensor, .dim = 1}, {x(s)}, {x(s)}},
      {"all_gather", AllGather{.over = tensor, .dim = 1}, {x(s)}, {x(s)}},
      {"slice", Slice{.over = tensor, .dim = 1}, {x(s)}, {x(s)}},
      {"pad", Pad{.over = tensor, .dim = 1}, {x(s)}, {x(s)}},
      {"mark_shared", MarkShared{.over = tensor}, {x(s)}, {x(s)}},
      {"send", Send{.to = AdjacentStage::kNext}, {x(s)}, {}},
      {"receive",
       Receive{.from = AdjacentStage::kPrevious, .type = DType::kBF16, .shape = {2, 4, 16}},
       {},
       {x(s, kHalf)}},
  };
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& part : {products(), experts(), attentions(), sweeps(), updates(),
                           one_pass_updates(), communications()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tessera::testing
