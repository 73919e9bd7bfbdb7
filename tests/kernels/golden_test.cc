// Each op against PyTorch's values in float64 (tests/golden/ops.safetensors).
#include "tests/kernels/golden.h"
#include "kernels/adafactor.h"
#include "kernels/attention.h"
#include "kernels/gated_activation.h"
#include "kernels/gelu.h"
#include "kernels/muon.h"
#include "kernels/newton_schulz.h"
#include "kernels/norm.h"
#include "kernels/preference.h"
#include "kernels/rotary.h"
#include "kernels/update.h"
#include "kernels/vocab_parallel_cross_entropy.h"
#include "tests/kernels/update_step.h"

namespace tessera::kernels {
namespace {

std::vector<double> doubles(const Array& a) {
  std::vector<double> v;
  for (int64_t i = 0; i < a.size(); ++i) v.push_back(a.at(i));
  return v;
}

TEST(Golden, LayerNorm) {
  const Golden golden;
  for (const std::string c : {"layer_norm", "layer_norm_offset"}) {
    const auto of = [&](const char* name) { return golden(c + "." + name); };
    const Array x = of("x"), gain = of("gain"), bias = of("bias"), dy = of("dy");
    const int64_t n = x.shape()[0], d = x.shape()[1];
    const Array y({n, d}), stats({n, 2}), dx({n, d}), dgain({d}), dbias({d});
    const auto epsilon = static_cast<float>(golden.number("layer_norm.epsilon"));
    compute(NormArgs{x, {.epsilon = epsilon, .outputs = {{gain, bias, y}}, .stats = stats}});
    compute(NormGradArgs{NormKind::kLayer, x, stats, gain, dy, dx, false, dgain, dbias});
    // A float mean of 100 is itself uncertain by 4e-6 of the deviation.
    const double bound = c == "layer_norm" ? 3e-7 : 5e-6;
    EXPECT_LT(distance(y, doubles(of("y"))), bound);
    EXPECT_LT(distance(dx, doubles(of("dx"))), 3 * bound);
    EXPECT_LT(distance(dgain, doubles(of("d_gain"))), bound);
    EXPECT_LT(distance(dbias, doubles(of("d_bias"))), 3e-7);
  }
}

// The whole chain from logits to the loss of pairs and back, in f32, with PyTorch's loss and
// gradient.
TEST(Golden, Preferences) {
  using Kind = PreferenceLossKind;
  const Golden golden("preferences.safetensors");
  const Array labels = golden("labels"), answers = golden("answers");
  const int64_t pairs = labels.shape()[0], tokens = labels.shape()[1];
  const int64_t vocabulary = golden("logits").shape()[2], rows = pairs * tokens;
  const std::pair<const char*, PreferenceForm> forms[] = {
      {"dpo", {.kind = Kind::kDpo, .beta = 0.3}},
      {"dpo_smoothed", {.kind = Kind::kDpo, .beta = 0.3, .label_smoothing = 0.2}},
      {"dpo_capped", {.kind = Kind::kDpo, .beta = 0.3}},
      {"ipo", {.kind = Kind::kIpo, .mean = true, .beta = 0.7}},
      {"simpo", {.kind = Kind::kSimpo, .mean = true, .beta = 2, .gamma = 0.5}},
      {"orpo", {.kind = Kind::kOrpo, .mean = true, .beta = 0.4}},
      {"kto",
       {.kind = Kind::kKto, .beta = 0.3, .desirable_weight = 1.3, .undesirable_weight = 0.6}}};
  int64_t chosen_tokens = 0;
  for (int64_t i = 0; i < rows; ++i) chosen_tokens += answers.at(i) == 0 ? 1 : 0;
  for (const auto& [name, form] : forms) {
    const Array z = golden("logits"), given = golden("references");
    const float cap = std::string_view(name) == "dpo_capped" ? 2 : 0;
    const DividedLogits logits = {
        {z.data(), DType::kF32, {rows, vocabulary}}, vocabulary, 0, vocabulary, cap};
    const Array max({rows}), sums({rows, 2}), d_sums({rows, 2});
    const TensorView flat_labels = {labels.data(), DType::kI32, {rows}};
    const TensorView terms = {sums.data(), DType::kF32, {pairs, tokens, 2}};
    const TensorView d_terms = {d_sums.data(), DType::kF32, {pairs, tokens, 2}};
    std::vector<double> of(static_cast<size_t>(4 * pairs)), d_of(of.size()),
        references(doubles(given));
    for (int64_t b = 0; b < pairs; ++b) {
      double* const own = references.data() + 3 * b;
      if (form.kind == Kind::kKto) own[1] = 0.25;  // z
      if (form.kind == Kind::kOrpo)
        own[2] = static_cast<double>(pairs) / static_cast<double>(chosen_tokens);
    }
    const TensorView of_view = {of.data(), DType::kF64, {pairs, 2, 2}};
    const TensorView d_of_view = {d_of.data(), DType::kF64, {pairs, 2, 2}};
    std::array<double, 2> report = {};
    std::array<double, kPreferenceFigures> figures = {};
    compute(LogitsMaxArgs{logits, max});
    compute(LogitsSumsArgs{logits, max, flat_labels, sums});
    compute(AnswerSumsArgs{true, terms, answers, of_view});
    compute(PreferenceLossArgs{form,
                               of_view,
                               {references.data(), DType::kF64, {pairs, 3}},
                               report.data(),
                               figures.data(),
                               nullptr,
                               d_of_view});
    compute(AnswerSumsGradArgs{true, terms, answers, d_of_view, d_terms});
    compute(LogitsSumsGradArgs{logits, max, flat_labels, d_sums});
    const double expected = golden(std::string(name) + ".loss_sum").at(0);
    EXPECT_NEAR(report[0], expected, 1e-6 * expected) << name;
    EXPECT_LT(distance(z, doubles(golden(std::string(name) + ".d_logits"))), 1e-6) << name;
  }
}

TEST(Golden, RmsNorm) {
  const Golden golden;
  const auto of = [&](const char* name) { return golden(std::string("rms_norm.") + name); };
  const Array x = of("x"), gain = of("gain"), dy = of("dy");
  const int64_t n = x.shape()[0], d = x.shape()[1];
  const Array y({n, d}), stats({n, 2}), dx({n, d}), dgain({d});
  const auto epsilon = static_cast<float>(golden.number("rms_norm.epsilon"));
  compute(NormArgs{x, {NormKind::kRms, epsilon, {{gain, {}, y}}, stats}});
  compute(NormGradArgs{NormKind::kRms, x, stats, gain, dy, dx, false, dgain, {}});
  EXPECT_LT(distance(y, doubles(of("y"))), 3e-7);
  EXPECT_LT(distance(dx, doubles(of("dx"))), 3e-7);
  EXPECT_LT(distance(dgain, doubles(of("d_gain"))), 3e-7);
}

TEST(Golden, GatedActivation) {
  const Golden golden;
  const std::pair<const char*, GateKind> kinds[] = {{"gated_silu", GateKind::kSilu},
                                                    {"gated_erf", GateKind::kErf},
                                                    {"gated_tanh", GateKind::kTanh}};
  for (const auto& [c, kind] : kinds) {
    const auto of = [&, name = std::string(c)](const char* n) { return golden(name + "." + n); };
    const Array x = of("x"), dy = of("dy"), y(dy.shape()), dx(x.shape());
    compute(GatedActivationArgs{kind, x, y});
    compute(GatedActivationGradArgs{kind, x, dy, dx});
    EXPECT_LT(distance(y, doubles(of("y"))), 2e-7) << c;
    EXPECT_LT(distance(dx, doubles(of("dx"))), 2e-7) << c;
  }
}

TEST(Golden, Gelu) {
  const Golden golden;
  for (const std::string c : {"gelu_erf", "gelu_tanh"}) {
    const auto of = [&](const char* name) { return golden(c + "." + name); };
    const GeluKind kind = c == "gelu_erf" ? GeluKind::kErf : GeluKind::kTanh;
    const Array x = of("x"), bias = of("bias"), dy = of("dy"), y(x.shape()), dx(x.shape());
    const Array dbias(bias.shape());
    compute(GeluArgs{kind, x, bias, y});
    compute(GeluGradArgs{kind, x, bias, dy, dx, dbias});
    EXPECT_LT(distance(y, doubles(of("y"))), 2e-7);
    EXPECT_LT(distance(dx, doubles(of("dx"))), 2e-7);
    EXPECT_LT(distance(dbias, doubles(of("d_bias"))), 2e-7);
  }
}

TEST(Golden, Rotary) {
  const Golden golden;
  Array qkv = golden("rotary.qkv"), d_out = golden("rotary.d_out");
  const Array positions = golden("rotary.positions");
  Rotary r{.dims = static_cast<int64_t>(golden.number("rotary.dims")),
           .base = golden.number("rotary.base")};
  compute(RotaryArgs{qkv, positions, r});
  EXPECT_LT(distance(qkv, doubles(golden("rotary.out"))), 2e-6);
  r.inverse = true;
  compute(RotaryArgs{d_out, positions, r});
  EXPECT_LT(distance(d_out, doubles(golden("rotary.d_qkv"))), 2e-6);
}

TEST(Golden, Attention) {
  const Golden golden;
  for (const std::string c : {"attention", "attention_long", "attention_grouped"}) {
    const auto of = [&](const char* name) { return golden(c + "." + name); };
    const Array qkv = of("qkv"), d_out = of("d_out"), d_qkv(qkv.shape()), out(d_out.shape());
    const Array lse(of("lse").shape());
    const auto scale = static_cast<float>(golden.number(c + ".scale"));
    compute(AttentionArgs{qkv, out, lse, scale, {}}, 2);
    compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, scale, {}}, 2);
    EXPECT_LT(distance(out, doubles(of("out"))), 5e-7) << c;
    EXPECT_LT(distance(lse, doubles(of("lse"))), 5e-7) << c;
    EXPECT_LT(distance(d_qkv, doubles(of("d_qkv"))), 1e-6) << c;
  }
}

// Queries, keys and values in one or two tensors; what hides keys; biases by distance.
TEST(Golden, AttentionScopes) {
  const Golden golden;
  for (const std::string c :
       {"attention_documents", "attention_bias", "attention_bias_whole", "attention_across"}) {
    const auto of = [&](const char* name) { return golden(c + "." + name); };
    const bool across = c == "attention_across", biased = c.find("bias") != c.npos;
    const Array qkv = of("qkv"), d_out = of("d_out"), d_qkv(qkv.shape()), out(d_out.shape());
    const Array lse(of("lse").shape()), seen = of(c == "attention_documents" ? "documents" : "ids");
    const Array kv = across ? of("kv") : Array(), bias = biased ? of("bias") : Array();
    const Array d_kv(across ? kv.shape() : Shape{}), d_bias(biased ? bias.shape() : Shape{});
    AttentionArgs a;
    a.qkv = qkv;
    a.out = out;
    a.lse = lse;
    a.scale = static_cast<float>(golden.number(c + ".scale"));
    a.scope.causal = c == "attention_documents" || c == "attention_bias";
    (c == "attention_documents" ? a.scope.documents : a.scope.ids) = seen;
    AttentionGradArgs g;
    if (across) a.kv = g.kv = kv, g.d_kv = d_kv;
    if (biased) {
      a.scope.bias = bias;
      a.scope.bias_distance = static_cast<int64_t>(golden.number(c + ".distance"));
      g.d_bias = d_bias;
      g.fresh_bias = true;
    }
    compute(a, 2);
    g.qkv = qkv;
    g.out = out;
    g.lse = lse;
    g.d_out = d_out;
    g.d_qkv = d_qkv;
    g.scale = a.scale;
    g.scope = a.scope;
    compute(g, 2);
    EXPECT_LT(distance(out, doubles(of("out"))), 5e-7) << c;
    EXPECT_LT(distance(lse, doubles(of("lse"))), 5e-7) << c;
    EXPECT_LT(distance(d_qkv, doubles(of("d_qkv"))), 1e-6) << c;
    if (across) {
      EXPECT_LT(distance(d_kv, doubles(of("d_kv"))), 1e-6) << c;
    }
    if (!biased) continue;
    EXPECT_LT(distance(d_bias, doubles(of("d_bias"))), 2e-6) << c;
    g.fresh_bias = false;
    compute(g, 2);
    std::vector<double> twice = doubles(of("d_bias"));
    for (double& x : twice) x *= 2;
    EXPECT_LT(distance(d_bias, twice), 2e-6) << c;
  }
}

TEST(Golden, AdamW) {
  const Golden golden;
  for (const std::string c : {"adamw", "adamw_no_decay"}) {
    const auto of = [&](const char* name) { return golden(c + "." + name); };
    const Array weights = of("weight"), gradients = of("gradients");
    const int64_t n = weights.size(), steps = gradients.shape()[0];
    const Array m({n}), v({n});
    const UpdateRange all{0, n, true};
    for (int64_t t = 0; t < steps; ++t) {
      const TensorView g{gradients.as<float>() + t * n, DType::kF32, {n}};
      adamw({weights, m, v, g, {}, {&all, 1}},
            {.learning_rate = golden.number(c + ".learning_rate"),
             .beta1 = golden.number(c + ".beta1"),
             .beta2 = golden.number(c + ".beta2"),
             .epsilon = golden.number(c + ".epsilon"),
             .weight_decay = golden.number(c + ".weight_decay"),
             .step = static_cast<double>(t + 1)});
    }
    EXPECT_LT(distance(weights, doubles(of("new_weight"))), 2e-7);
    EXPECT_LT(distance(m, doubles(of("moment1"))), 2e-7);
    EXPECT_LT(distance(v, doubles(of("moment2"))), 2e-7);
  }
}

StepNumbers step_of(const Golden& golden, const std::string& c, int64_t t) {
  return {.learning_rate = golden.number(c + ".learning_rate"),
          .beta1 = golden.number(c + ".beta1", 0),
          .beta2 = golden.number(c + ".beta2", 0),
          .weight_decay = golden.number(c + ".weight_decay", 0),
          .step = static_cast<double>(t),
          .share = 1 / static_cast<double>(t)};  // of a constant rate
}

// The cases of an optimizer have its name, or that and "_plain": without a moment.
TEST(Golden, OnePassOptimizers) {
  const Golden golden("optimizers.safetensors");
  int cases = 0;
  for (const OptimizerKind kind : kOnePassOptimizers)
    for (const char* suffix : {"", "_plain"}) {
      const std::string c = std::string(traits_of(kind).name) + suffix;
      if (!golden.has(c + ".weight")) continue;
      ++cases;
      const bool plain = *suffix != 0;
      const Array weights = golden(c + ".weight"), gradients = golden(c + ".gradients");
      const int64_t n = weights.size(), steps = gradients.shape()[0];
      const bool averages = traits_of(kind).averages;
      const Array m = averages ? weights : Array({n}), v({n});
      const UpdateRange all{0, n, true};
      for (int64_t t = 1; t <= steps; ++t) {
        Update u{.weights = weights, .m = m, .gradient = {}, .ranges = {&all, 1}};
        if (plain) u.m = {};
        if (traits_of(kind).moment2) u.v = v;
        u.gradient = {gradients.as<float>() + (t - 1) * n, DType::kF32, {n}};
        update(kind, u, step_of(golden, c, t));
      }
      const char* const result = averages ? ".new_x" : ".new_weight";
      EXPECT_LT(distance(weights, doubles(golden(c + result))), 2e-7) << c;
      if (!plain) {
        EXPECT_LT(distance(m, doubles(golden(c + (averages ? ".iterate" : ".moment1")))), 2e-7)
            << c;
      }
    }
  EXPECT_GE(cases, 4);
}

// One weight, whole: what the ranks of a run do with runs of it.
struct AdafactorState {
  FactorShape shape;
  Array weights, m, rows, columns;

  void step(const TensorView& g, const StepNumbers& s, const Golden& golden, const std::string& c) {
    const int64_t n = weights.size();
    std::vector<double> row_sums(static_cast<size_t>(shape.rows)),
        column_sums(static_cast<size_t>(shape.columns));
    const FactorRun whole = {0, n, 0, shape.columns};
    const UpdateNumbers now = s.numbers();
    compute(FactorSumsArgs{g, whole, now, golden.number(c + ".epsilon"), view_of(row_sums),
                           view_of(column_sums)});
    compute(FactorMeansArgs{shape, now, golden.number(c + ".decay_power"), row_sums.data(),
                            column_sums.data(), rows.as<float>(), columns.as<float>()});
    const Array row_scales(rows.shape()), column_scales(columns.shape());
    compute(FactorScalesArgs{shape, rows.as<float>(), columns.as<float>(), row_scales.as<float>(),
                             column_scales.as<float>()});
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += weights.at(i) * weights.at(i);
    const FactorScales scales = {shape.columns, row_scales.as<float>(), column_scales.as<float>()};
    double updates = 0;
    compute(UpdateSquaresArgs{g, whole, now, scales, &updates});
    const double least = s.beta1 == 0 ? golden.number(c + ".least_scale") : 0;
    const UpdateRange all{0, n, true};
    const Update update = {.weights = weights,
                           .m = s.beta1 > 0 ? m.view() : TensorView(),
                           .gradient = g,
                           .ranges = {&all, 1}};
    compute(AdafactorArgs{
        update,
        s.constants(),
        now,
        scales,
        {&squares, &updates, static_cast<double>(n), least, golden.number(c + ".update_clip")}});
  }
};

TEST(Golden, Adafactor) {
  const Golden golden("optimizers.safetensors");
  for (const std::string c : {"adafactor", "adafactor_vector", "adafactor_momentum"}) {
    const Array weights = golden(c + ".weight"), gradients = golden(c + ".gradients");
    const bool matrix = weights.shape().rank() == 2;
    const int64_t n = weights.size(), columns = matrix ? weights.shape()[1] : 0;
    const int64_t rows = weights.shape()[0];
    AdafactorState state = {{rows, columns}, weights, Array({n}), Array({rows}), Array({columns})};
    for (int64_t t = 1; t <= gradients.shape()[0]; ++t) {
      const TensorView g = {gradients.as<float>() + (t - 1) * n, DType::kF32, {n}};
      state.step(g, step_of(golden, c, t), golden, c);
    }
    EXPECT_LT(distance(state.weights, doubles(golden(c + ".new_weight"))), 3e-7) << c;
    EXPECT_LT(distance(state.rows, doubles(golden(c + ".rows"))), 3e-7) << c;
    if (matrix) {
      EXPECT_LT(distance(state.columns, doubles(golden(c + ".columns"))), 3e-7) << c;
    }
    if (c == "adafactor_momentum") {
      EXPECT_LT(distance(state.m, doubles(golden(c + ".moment1"))), 3e-7) << c;
    }
  }
}

// PyTorch's Muon with exact iterations.
TEST(Golden, Muon) {
  const Golden golden("optimizers.safetensors");
  for (const std::string c : {"muon", "muon_tall"}) {
    const Array weights = golden(c + ".weight"), gradients = golden(c + ".gradients");
    const int64_t rows = weights.shape()[0], columns = weights.shape()[1], n = rows * columns;
    const CpuBackend backend(read_cpu_features(), 1);
    const OrthogonalMatrices iterations({.rows = rows, .columns = columns}, backend);
    const auto workspace = host_arena("workspace", iterations.workspace_bytes());
    const Array m({n}), x({n});
    const UpdateRange all{0, n, true};
    for (int64_t t = 1; t <= gradients.shape()[0]; ++t) {
      const StepNumbers s = step_of(golden, c, t);
      const TensorView g = {gradients.as<float>() + (t - 1) * n, DType::kF32, {n}};
      compute(DirectionArgs{g, m, {&all, 1}, &s.scale, s.beta1, c == "muon", x});
      iterations.run({.workspace = workspace->data()}, x.data());
      MuonArgs args;
      args.update = {.weights = weights, .m = m, .gradient = g, .ranges = {&all, 1}};
      args.constants = s.constants();
      args.numbers = s.numbers();
      args.directions = x;
      args.direction_scale =
          update_scale(c == "muon" ? UpdateScale::kSpectral : UpdateScale::kShape, rows, columns);
      compute(args);
    }
    EXPECT_LT(distance(weights, doubles(golden(c + ".new_weight"))), 3e-7) << c;
    EXPECT_LT(distance(m, doubles(golden(c + ".moment1"))), 3e-7) << c;
  }
}

}  // namespace
}  // namespace tessera::kernels
