// Writes the forward graph of a model. A block is written once for all its layers; a family
// (gpt2.cc, llama.cc, …) is a function that calls BlockWriter, and each method here appends one op
// and its weights.
// Weights declare how tensor parallelism divides them. `divided` is the dimension: outputs for the
// first GEMM of a pair (column parallel), inputs for the second (row parallel), as in Megatron-LM
// (Shoeybi et al. 2019). The shard pass derives everything else.
//
// Layers of the same kind (layer_kinds) share one block: the block is compiled once and called per
// layer, so the size of a program does not grow with the depth of the model. What differs between
// layers and changes the computation (experts, windows, no RoPE, a wider MLP) makes another kind;
// what differs in numbers only is in the weights.
//
// Nothing here depends on the layout, with one exception: if there are more tensor ranks than
// key/value heads, the weight of the grouped heads is written in two parts (grouped_heads), because
// the parts are sharded differently.
#include "model/forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "ir/state.h"
#include "model/family.h"
#include "model/hf_names.h"

namespace tessera::model {
namespace {

constexpr uint8_t kEach = kPerLayer | kPerMicrobatch;

// 0, 1, …; none for kNone.
std::vector<int64_t> numbers(int64_t layers) {
  std::vector<int64_t> at(std::max<int64_t>(layers, 0));
  std::iota(at.begin(), at.end(), 0);
  return at;
}

// Returns the standard deviation of initial weights; with muP, that of the narrower model.
double standard_deviation(Initializer kind, const ModelConfig& m) {
  const auto layers = static_cast<double>(m.layers);
  const double hidden = static_cast<double>(m.hidden) / m.width_ratio();
  switch (kind) {
    case Initializer::kNormal:
      return m.init_std;
    case Initializer::kScaledNormal:
      // Output projections of residual branches: the sum over 2 L branches keeps the variance of
      // one.
      return m.init_std / std::sqrt(2 * layers);
    case Initializer::kSmall:
      return std::sqrt(2 / (5 * hidden));  // Nguyen & Salazar 2019
    case Initializer::kWang:
      return 2 / (layers * std::sqrt(hidden));  // GPT-J, GPT-NeoX
  }
  CHECK(false, "initializer {}", static_cast<int>(kind));
}

// YaRN's temperature g of a context that is `factor` times as long (Peng et al. 2023).
double yarn_magnitude(double factor, double mscale = 1) {
  return 0.1 * mscale * std::log(factor) + 1;
}

// The published factor of cosines and sines (DynamicRope of DeepSeek; LongRoPE's equation 9).
double rotary_magnitude(const RopeScalingConfig& s) {
  if (s.rope_type != RopeType::kYarn && s.rope_type != RopeType::kLongrope) return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  if (s.factor <= 1) return 1;
  if (s.rope_type == RopeType::kYarn) {
    const bool both = s.mscale > 0 && s.mscale_all_dim > 0;
    return both ? yarn_magnitude(s.factor, s.mscale) / yarn_magnitude(s.factor, s.mscale_all_dim)
                : yarn_magnitude(s.factor);
  }
  return std::sqrt(1 + std::log(s.factor) /
                           std::log(static_cast<double>(s.original_max_position_embeddings)));
}

RopeScaling op_kind(RopeType kind) {
  switch (kind) {
    case RopeType::kLlama3:
      return RopeScaling::kLlama3;
    case RopeType::kLinear:
      return RopeScaling::kLinear;
    case RopeType::kDynamic:
      return RopeScaling::kUnscaled;
    case RopeType::kYarn:
      return RopeScaling::kYarn;
    case RopeType::kLongrope:
      return RopeScaling::kLongrope;
  }
  CHECK(false, "rotary kind {}", static_cast<int>(kind));
}

// Sets what the scale of the model's frequencies is for sequences of that length.
void scale_rotary(const ModelConfig& m, int64_t tokens, Rotary& a) {
  const RopeScalingConfig& s = m.rope_scaling;
  a.magnitude = rotary_magnitude(s);
  if (!s.scales()) return;
  a.scaling = op_kind(s.rope_type);
  if (s.rope_type == RopeType::kLongrope) {
    a.dividers = tokens > s.original_max_position_embeddings ? s.long_factor : s.short_factor;
    return;
  }
  a.factor = s.factor;
  if (!a.has_bounds()) return;
  const bool yarn = s.rope_type == RopeType::kYarn;
  a.low = yarn ? s.beta_slow : s.low_freq_factor;
  a.high = yarn ? s.beta_fast : s.high_freq_factor;
  a.context = s.original_max_position_embeddings;
  a.truncate = !yarn || s.truncate;
}

}  // namespace

int64_t rotated_dims(const ModelConfig& m) {
  if (m.latent.exists()) return m.latent.rope_width;
  return static_cast<int64_t>(static_cast<double>(m.head_size()) * m.rotary_pct);
}

double attention_scale(const ModelConfig& m) {
  const double scalar = m.attention_scalar, size = static_cast<double>(m.head_size());
  double scale = 1 / std::sqrt(scalar > 0 ? scalar : size);
  // Queries and keys become correlated in training, so scores grow as the width of a head.
  if (m.mup.base > 0 && m.mup.base_head_width > 0)
    scale *= std::sqrt(static_cast<double>(m.mup.base_head_width) / size);
  const RopeScalingConfig& s = m.rope_scaling;
  if (!m.latent.exists() || s.rope_type != RopeType::kYarn || s.factor <= 1) return scale;
  const double g = yarn_magnitude(s.factor, s.mscale_all_dim);
  return scale * g * g;
}

double std_in(const ModelConfig& m) { return standard_deviation(m.init, m); }
double std_out(const ModelConfig& m) { return standard_deviation(m.output_init, m); }

std::vector<LayerKind> layer_kinds(const ModelConfig& m) {
  const auto has = [](const std::vector<int64_t>& list, int64_t layer) {
    return std::binary_search(list.begin(), list.end(), layer);
  };
  std::vector<LayerKind> kinds;
  for (int64_t l = 0; l < m.layers; ++l) {
    const bool nope = has(m.no_rope_layers, l), wide = has(m.wide_layers, l);
    const bool dense = has(m.dense_layers, l), slides = m.window > 0 && has(m.window_layers, l);
    const std::string block =
        fmt::format("{}{}{}{}{}", kLayerStack, nope ? "_nope" : "", wide ? "_wide" : "",
                    slides ? "_window" : "", dense ? "_dense" : "");
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const LayerKind& k) { return k.block == block; });
    if (kind == kinds.end()) {
      const int64_t window = slides || m.window_layers.empty() ? m.window : 0;
      kind = kinds.insert(kind, {.block = block,
                                 .at = {},
                                 .rotary = !nope,
                                 .feed_forward = inner_width(m, l),
                                 .experts = has_experts(m, l),
                                 .window = window,
                                 .rope_theta = window > 0 ? m.window_rope_theta : 0});
    }
    kind->at.push_back(l);
  }
  return kinds;
}

LayerKind mtp_layer(const ModelConfig& m, int64_t depth) {
  for (LayerKind& kind : layer_kinds(m)) {
    if (kind.at.back() != m.layers - 1) continue;
    kind.stack = fmt::format("mtp{}", depth - 1);
    kind.at.clear();
    kind.in_head = true;
    return std::move(kind);
  }
  CHECK(false, "a model of {} layers", m.layers);
}

BlockWriter::BlockWriter(Graph& graph, const BatchValues& batch, const ModelConfig& model,
                         LayerKind kind)
    : graph_(graph),
      batch_(batch),
      model_(model),
      kind_(std::move(kind)),
      builder_(graph, block_.forward,
               kind_.at.empty() ? static_cast<uint8_t>(kPerMicrobatch) : kEach, kind_.stack) {
  block_.name = kind_.block;
  block_.at = kind_.at;
}

BlockWriter::BlockWriter(Graph& graph, const BatchValues& batch, const ModelConfig& model,
                         const std::string& name, int64_t layers)
    : BlockWriter(graph, batch, model,
                  LayerKind{.block = name, .at = numbers(layers), .stack = name}) {}

void BlockWriter::enter(const LayerKind& layer) {
  CHECK(layer.in_head, "{} is a stack", layer.block);
  kind_ = layer;
  builder_.prefix(kind_.stack);
}

// Declares a weight with a normal distribution. Matrices have weight decay, vectors (gains and
// biases) have none, as in Megatron-LM.
ValueId BlockWriter::matrix(const std::string& name, Shape shape, double std, int divided) {
  const uint8_t per = block_.at.empty() ? kOne : kPerLayer;
  const ValueId v = builder_.value(name, DType::kF32, std::move(shape), Role::kWeight, per);
  // With mup, the variance of a layer's matrix is inverse to the number of its inputs.
  const bool in_layer = !block_.at.empty() || kind_.in_head;
  graph_[v].initial = {in_layer ? std / std::sqrt(model_.width_ratio()) : std, 0};
  graph_[v].decays = true;
  if (divided != kNone) graph_[v].sharding.place[AxisKind::kTensor] = static_cast<int8_t>(divided);
  return v;
}

ValueId BlockWriter::vector(const std::string& name, Shape shape, double constant, int divided,
                            double std) {
  const ValueId v = matrix(name, std::move(shape), 0, divided);
  graph_[v].initial = {std, constant};
  graph_[v].decays = false;
  return v;
}

void BlockWriter::name_parts(ValueId weight, int64_t dim,
                             const std::vector<std::pair<const char*, int64_t>>& parts) {
  int64_t first = 0;
  for (const auto& [name, count] : parts) {
    graph_[weight].parts.push_back({name, dim, first, count});
    first += count;
  }
  CHECK(first == graph_[weight].shape[static_cast<int>(dim)], "{} has {} of {} indices in parts",
        graph_[weight].name, first, to_string(graph_[weight].shape));
}

ValueId BlockWriter::stream(HiddenStream from) {
  const int64_t tokens = from == HiddenStream::kHidden ? graph_.tokens : graph_.encoder_tokens;
  const Shape shape{graph_.sequences, tokens, model_.hidden};
  block_.from = from;
  block_.input = builder_.value("hidden", DType::kF32, shape, Role::kHidden, kEach);
  return block_.input;
}

void BlockWriter::finish(ValueId hidden, HiddenStream to) {
  block_.to = to;
  block_.output = hidden;
  graph_[hidden].role = Role::kHidden;
  graph_[hidden].indexed_by = kEach;
  graph_.blocks.push_back(std::move(block_));
}

void BlockWriter::remember(ValueId memory) {
  graph_.encoder_output = memory;
  graph_[memory].role = Role::kHidden;
  graph_[memory].indexed_by = kPerMicrobatch;
}

void BlockWriter::finish_with_loss() {
  block_.loss = true;
  graph_.blocks.push_back(std::move(block_));
}

ValueId BlockWriter::norm(const std::string& name, ValueId x) {
  const Shape f{model_.hidden};
  const ValueId gain = vector(name + ".gain", f, 1), bias = vector(name + ".bias", f, 0);
  return builder_.emit_one(Norm{.epsilon = model_.norm_epsilon}, name, {x, gain, bias});
}

ValueId BlockWriter::rms_norm(const std::string& name, ValueId x, GainForm form) {
  const bool offset = form == GainForm::kLessOne;
  const ValueId gain = vector(name + ".gain", {model_.hidden}, offset ? 0 : 1);
  const RmsNorm a = {.epsilon = model_.norm_epsilon, .unit_offset = offset};
  return builder_.emit_one(a, name, {x, gain});
}

ValueId BlockWriter::product(const std::string& name, ValueId x, ValueId weight, int64_t contract) {
  return builder_.emit_one(Matmul{.contract = contract}, name, {x, weight});
}

ValueId BlockWriter::linear(const std::string& name, ValueId x, const Shape& out, double std) {
  std::vector<int64_t> dims = out.dims();
  dims.push_back(graph_[x].shape[-1]);
  const ValueId w = matrix(name + ".weight", Shape(dims), std, 0);
  const ValueId b = vector(name + ".bias", out, 0, 0);
  return sum(name, {product(name, x, w)}, {b});
}

ValueId BlockWriter::embedding(const std::string& name, ValueId ids, ValueId table) {
  return builder_.emit_one(Embedding{}, name, {ids, table});
}

ValueId BlockWriter::pair(const std::string& name, ValueId first, ValueId second) {
  return builder_.emit_one(JoinPair{}, name, {first, second});
}

ValueId BlockWriter::sum(const std::string& name, std::vector<ValueId> terms,
                         std::vector<ValueId> biases) {
  const auto count = std::ssize(terms);
  terms.insert(terms.end(), biases.begin(), biases.end());
  return builder_.emit_one(Sum{.terms = count}, name, terms);
}

ValueId BlockWriter::rotary(ValueId qkv) {
  if (!kind_.rotary) return qkv;
  Rotary a = {.dims = rotated_dims(model_), .base = model_.rope_theta};
  if (kind_.rope_theta > 0)
    a.base = kind_.rope_theta;
  else
    scale_rotary(model_, graph_.tokens, a);
  return builder_.emit_one(a, "attn.rotary", {qkv, batch_.positions});
}

ValueId BlockWriter::attention(const std::string& name, ValueId queries,
                               const AttentionForm& form) {
  Attention a = {.scale = form.scale,
                 .value_width = form.value_width,
                 .separate_kv = form.separate_kv != kNone,
                 .non_causal = form.non_causal,
                 .window = form.window,
                 .soft_cap = form.soft_cap,
                 .sinks = form.sinks != kNone};
  std::vector<ValueId> in = {queries};
  if (form.bias != kNone) a.bias_distance = model_.relative_distance;
  if (form.padding != kNone) a.mask = Mask::kPadding;
  const bool apart = form.padding == kNone && batch_.documents != kNone;
  if (apart) a.mask = Mask::kDocuments;
  for (const ValueId v :
       {form.separate_kv, form.bias, form.sinks, form.padding, apart ? batch_.documents : kNone})
    if (v != kNone) in.push_back(v);
  if (model_.attention_dropout > 0) {
    a.dropout = model_.attention_dropout;
    a.key = static_cast<int64_t>(hash_name(kind_.stack + "." + name + ".dropout"));
    in.insert(in.end(), {batch_.samples, batch_.step});
  }
  return builder_.emit_one(a, name, in);
}

ValueId BlockWriter::scale(const std::string& name, ValueId x, double factor, bool rounded) {
  return builder_.emit_one(Scale{.factor = factor, .rounded = rounded}, name, {x});
}

ValueId BlockWriter::gelu(const std::string& name, ValueId x) {
  return builder_.emit_one(Gelu{.form = model_.gelu}, name, {x});
}

ValueId BlockWriter::gated_activation(const std::string& name, ValueId x, GateForm form) {
  return builder_.emit_one(GatedActivation{.form = form}, name, {x});
}

ValueId BlockWriter::dropout(const std::string& name, ValueId x,
                             std::optional<double> probability) {
  const double p = probability.value_or(model_.dropout);
  if (p == 0) return x;
  const auto key = static_cast<int64_t>(hash_name(kind_.stack + "." + name));
  return builder_.emit_one(Dropout{.p = p, .key = key}, name, {x, batch_.samples, batch_.step});
}

Graph forward(const ModelConfig& model, const BatchForm& form) {
  CHECK(form.sequences > 0 && form.tokens > 0 && form.tokens <= model.context &&
            (form.source > 0) == (model.encoder_layers > 0),
        "{} x {} tokens of context {}, {} of an encoder", form.sequences, form.tokens,
        model.context, form.source);
  Graph g;
  g.sequences = form.sequences;
  g.tokens = form.tokens;
  g.encoder_tokens = form.source;
  std::vector<Op> none;
  Builder inputs(g, none, kOne, "");
  const auto batch = [&](Role role, DType type, Shape shape) {
    return inputs.value(std::string(value_name(role)), type, std::move(shape), role,
                        kPerMicrobatch);
  };
  const Shape bt{form.sequences, form.tokens};
  BatchValues b;
  b.head_copies = form.head_copies;
  b.tokens = batch(Role::kTokens, DType::kI32, bt);
  b.labels = batch(Role::kLabels, DType::kI32, bt);
  b.positions = batch(Role::kPositions, DType::kI32, bt);
  b.samples = batch(Role::kSamples, DType::kI64, {form.sequences});
  if (form.intra_document_masking) b.documents = batch(Role::kDocuments, DType::kI32, bt);
  for (int64_t d = 1; d <= model.mtp_depth; ++d) {
    const auto mtp = [&](Role role) {
      return inputs.value(fmt::format("{}{}", value_name(role), d), DType::kI32, bt, role,
                          kPerMicrobatch);
    };
    b.mtp_tokens.push_back(mtp(Role::kMtpTokens));
    b.mtp_labels.push_back(mtp(Role::kMtpLabels));
  }
  if (form.source > 0) b.source = batch(Role::kSource, DType::kI32, {form.sequences, form.source});
  b.step = inputs.value("step", DType::kF64, {kStepSize}, Role::kStep, kOne);
  b.report = inputs.value("report", DType::kF64, {kReportSize}, Role::kReport, kOne);
  rule_of(model.family).forward(g, b, model);
  return g;
}

}  // namespace tessera::model
