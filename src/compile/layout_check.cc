// The rules of layouts. A message lists the values that would be possible. Sizes are checked first,
// so that no later rule divides by zero.
#include "compile/layout_check.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "base/nf4.h"
#include "compile/graph/graph_passes.h"
#include "model/family.h"
#include "model/forward.h"

namespace tessera::compile {
namespace {

std::string divisors(int64_t n) {
  std::string list;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) list += fmt::format("{}{}", list.empty() ? "" : ", ", d);
  return list;
}

void check_sizes(const Layout& l) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"data", l.data},       {"tensor", l.tensor}, {"pipeline", l.pipeline},
      {"context", l.context}, {"expert", l.expert}, {"interleave", l.interleave}};
  for (const auto& [name, n] : sizes)
    if (n < 1) throw Error("layout.{} = {}, expected at least 1.", name, n);
  if (l.overlap < 0) throw Error("layout.overlap = {}, expected at least 0.", l.overlap);
}

// Tensor ranks divide the heads and the widths of feed-forward layers. The degrees that would be
// possible are the divisors of the greatest common divisor.
void check_tensor(const model::ModelConfig& m, const Layout& l) {
  const int64_t inner = model::inner_width(m);
  const int64_t expert = m.experts > 0 ? model::expert_width(m) : 0;
  const int64_t common = std::gcd(std::gcd(m.heads, inner), std::gcd(m.wide_feed_forward, expert));
  const auto divides = [&](const char* what, int64_t n) {
    if (n % l.tensor != 0)
      throw Error("layout.tensor = {} does not divide {} = {}. Possible here: {}.", l.tensor, what,
                  n, divisors(common));
  };
  divides("heads", m.heads);
  divides("feed_forward", inner);
  divides("wide_feed_forward", m.wide_feed_forward);
  divides("expert_feed_forward", expert);
}

// Returns the tokens of a sequence that are contiguous on a rank.
int64_t ring_block(const Layout& l, int64_t tokens) {
  return tokens / l.context / (l.context_balance ? 2 : 1);
}

// The tokens of a sequence are divided among context-parallel ranks, and with sequence parallelism
// each part among tensor-parallel ranks. Both divide one dimension, so all parts must be equal:
// attention reads the parts of context-parallel ranks alone. An encoder's layers see the whole of
// another sequence.
void check_context(const model::ModelConfig& m, const Layout& l, const BatchSizes& batch) {
  if (l.context == 1) return;
  if (model::rule_of(m.family).has_encoder)
    throw Error("layout.context = {} is not supported by family {}. Set it to 1.", l.context,
                name_of_entry(m.family));
  const int64_t tensor = l.sequence_parallel ? l.tensor : 1;
  if (batch.tokens % (l.context * tensor) != 0)
    throw Error(
        "layout.context{} = {} does not divide the tokens of a sequence = {}. Possible here: "
        "context = {}.{}",
        tensor > 1 ? " x layout.tensor (sequence_parallel)" : "", l.context * tensor, batch.tokens,
        divisors(batch.tokens % tensor == 0 ? batch.tokens / tensor : 1),
        tensor > 1 ? " Or set layout.sequence_parallel: false." : "");
  const bool by_heads = l.context_method == ContextMethod::kHeads;
  if (l.context_method == ContextMethod::kRing && !dropout_fits_ring(m, l, batch.tokens))
    throw Error(
        "layout.context_method = ring with attention dropout needs blocks of a multiple of 4 "
        "tokens, but each has {}. Change data.sequence_length, or set layout.context_method: "
        "gather.",
        ring_block(l, batch.tokens));
  if (l.context_balance && by_heads)
    throw Error(
        "layout.context_balance = true requires layout.context_method = gather or ring: with heads "
        "every rank has the same work. Remove it.");
  if (l.context_balance && batch.tokens % (2 * l.context) != 0)
    throw Error(
        "layout.context_balance = true divides the tokens of a sequence into 2 x layout.context = "
        "{} chunks, but {} is not a multiple of it. Change data.sequence_length, or set "
        "layout.context_balance: false.",
        2 * l.context, batch.tokens);
  if (by_heads && m.heads % head_ranks(l) != 0)
    throw Error(
        "layout.context = {} does not divide heads / layout.tensor = {}, and with "
        "layout.context_method = heads context-parallel ranks divide the heads. Possible here: {}. "
        "Or set layout.context_method: gather.",
        l.context, m.heads / l.tensor, divisors(std::gcd(m.heads / l.tensor, batch.tokens)));
}

// The experts are divided among data-parallel ranks.
void check_expert(const model::ModelConfig& m, const Layout& l) {
  if (l.expert == 1) return;
  if (m.experts == 0)
    throw Error("layout.expert = {}: the model has no experts. Set it to 1.", l.expert);
  const auto divides = [&](const char* what, int64_t n) {
    if (n % l.expert != 0)
      throw Error(
          "layout.expert = {} does not divide {} = {}: the experts are divided among data-parallel "
          "ranks. Possible here: {}.",
          l.expert, what, n, divisors(std::gcd(l.data, m.experts)));
  };
  divides("layout.data", l.data);
  divides("model.experts", m.experts);
}

// A step consists of micro-batches of all data ranks, so its size is a multiple of data x micro.
void check_data(const Layout& l, const BatchSizes& batch) {
  const int64_t step = l.data * batch.micro;
  if (batch.global > 0 && batch.global % step != 0) {
    const int64_t below = batch.global / step * step;
    throw Error(
        "batch.global = {} is not a multiple of layout.data x batch.micro = {} x {} = {}. Nearest "
        "possible: {}{}.",
        batch.global, l.data, batch.micro, step, below > 0 ? fmt::format("{} or ", below) : "",
        below + step);
  }
  if (l.zero < 0 || l.zero > 3) throw Error("layout.zero = {}. Possible: 0, 1, 2, 3.", l.zero);
  const int64_t copies = l.data / l.expert;
  if (l.zero_group < 0 || (l.zero_group > 0 && copies % l.zero_group != 0))
    throw Error("layout.zero_group = {} does not divide data{} = {}. Possible here: 0 (all), {}.",
                l.zero_group, l.expert > 1 ? " / expert" : "", copies, divisors(copies));
}

// L layers make at most L + 1 stages; the additional one holds only the embedding or the head. If
// the layers of each chunk are given, they must add up.
void check_pipeline(const model::ModelConfig& m, const Layout& l) {
  const int64_t chunks = l.pipeline * l.interleave;
  if (l.pipeline > m.all_layers() + 1)
    throw Error("layout.pipeline = {}: {} layers make at most {} stages.", l.pipeline,
                m.all_layers(), m.all_layers() + 1);
  if (l.interleave > m.all_layers() + 1)
    throw Error("layout.interleave = {}: {} layers make at most {} chunks.", l.interleave,
                m.all_layers(), m.all_layers() + 1);
  if (l.interleave > 1 && l.pipeline_schedule != PipelineSchedule::kInterleaved1F1B)
    throw Error(
        "layout.interleave = {} requires layout.pipeline_schedule: interleaved_1f1b. Set "
        "interleave "
        "to 1, or set that schedule.",
        l.interleave);
  if (l.stages.empty()) return;
  if (std::ssize(l.stages) != chunks)
    throw Error("layout.stages has {} numbers, expected pipeline x interleave = {} x {} = {}.",
                l.stages.size(), l.pipeline, l.interleave, chunks);
  int64_t sum = 0;
  for (const int64_t n : l.stages) {
    if (n < 0) throw Error("layout.stages has {}, expected at least 0.", n);
    sum += n;
  }
  if (sum != m.all_layers())
    throw Error("layout.stages adds up to {} layers, the model has {}.", sum, m.all_layers());
}

}  // namespace

bool dropout_fits_ring(const model::ModelConfig& model, const Layout& layout, int64_t tokens) {
  return model.attention_dropout == 0 || ring_block(layout, tokens) % 4 == 0;
}

void check_layout(const model::ModelConfig& model, const Layout& layout, const BatchSizes& batch) {
  check_sizes(layout);
  check_tensor(model, layout);
  check_context(model, layout, batch);
  check_expert(model, layout);
  check_data(layout, batch);
  check_pipeline(model, layout);
}

namespace {

// Returns the first optimizer of the request that works on whole matrices, or an empty text.
std::string whole_matrix_optimizer(const CompileRequest& r) {
  std::vector<OptimizerPolicy> policies = {r.optimizer};
  for (const OptimizerGroup& g : r.groups) policies.push_back(g.policy);
  for (const OptimizerPolicy& o : policies)
    if (traits_of(o.kind).factored || traits_of(o.kind).matrices) return name_of_entry(o.kind);
  return "";
}

}  // namespace

// Where tensor ranks share key/value heads, a weight of the layout is made of rows of the published
// one (Value::parent). Adapters, factored moments and Muon work on the published matrix.
bool can_copy_heads(const CompileRequest& r) {
  if (!model::rule_of(r.model.family).copies_heads) return false;
  return r.adapters.rank == 0 && whole_matrix_optimizer(r).empty();
}

void check_head_copies(const CompileRequest& r) {
  if (head_copies(r.model, r.layout) == 1 || can_copy_heads(r)) return;
  const bool by_heads = head_ranks(r.layout) > r.layout.tensor;
  const bool adapters = r.adapters.rank > 0, family = !model::rule_of(r.model.family).copies_heads;
  const std::string what = family     ? fmt::format("family {}", name_of_entry(r.model.family))
                           : adapters ? "lora"
                                      : "optimizer.kind: " + whole_matrix_optimizer(r);
  throw Error(
      "layout.tensor{} = {} does not divide kv_heads = {}, so {} ranks have the same keys and "
      "values, which {} does not support. Possible here: {} = {}{}{}.",
      by_heads ? " x layout.context (context_method: heads)" : "", head_ranks(r.layout),
      model::key_value_heads(r.model), head_copies(r.model, r.layout), what,
      by_heads ? "tensor x context" : "tensor", divisors(model::key_value_heads(r.model)),
      by_heads && model::key_value_heads(r.model) % r.layout.tensor == 0
          ? "; or layout.context_method: gather"
          : "",
      adapters || family ? "" : "; or another optimizer");
}

void check_preference(const CompileRequest& r) {
  const Layout& l = r.layout;
  if (!r.preference || !l.sequence_parallel || r.tokens % l.tensor == 0) return;
  throw Error(
      "layout.tensor = {} does not divide the tokens of a sequence = {}, which "
      "layout.sequence_parallel needs if objective.kind is not sft. Change data.sequence_length, "
      "or "
      "set layout.sequence_parallel: false.",
      l.tensor, r.tokens);
}

namespace {

// Throws Error unless each rank has whole blocks of a weight.
void check_blocks(const Value& w, int out, int64_t tensor) {
  const int64_t inputs = w.shape.product(out, w.shape.rank());
  if (inputs % kNf4Block != 0)
    throw Error(
        "lora.quantize = nf4 stores blocks of {} inputs, but {} has {} inputs. Set lora.quantize: "
        "none.",
        kNf4Block, w.name, inputs);
  const int by = w.sharding.place[AxisKind::kTensor];
  if (tensor == 1 || by < 0) return;
  if (by < out) {
    for (const WeightPart& part : parts_of(w))
      for (int d = 0; d < by; ++d)
        CHECK((d == part.dim ? part.count : w.shape[d]) == 1,
              "{} {}: the rows of a tensor-parallel rank do not follow one another", w.name,
              to_string(w.shape));
    return;
  }
  CHECK(by == out, "{} {} is divided along dimension {}", w.name, to_string(w.shape), by);
  const int64_t blocks = inputs / kNf4Block, first = w.shape[out];
  if (blocks % tensor != 0)
    throw Error(
        "layout.tensor = {} does not divide the {} blocks of {} inputs of {}, in which "
        "lora.quantize = nf4 stores it. Possible here: {}.",
        tensor, blocks, kNf4Block, w.name, divisors(std::gcd(blocks, first)));
  // Heads and blocks are one label of the op's sharding rule, which needs one extent to divide the
  // other.
  if (std::max(blocks, first) % std::min(blocks, first) != 0)
    throw Error(
        "lora.quantize = nf4 is not supported with layout.tensor = {} for {}, whose {} heads and "
        "{} blocks of {} inputs do not divide one another. Set layout.tensor: 1, or lora.quantize: "
        "none.",
        tensor, w.name, first, blocks, kNf4Block);
}

}  // namespace

void check_quantization(const CompileRequest& r) {
  if (r.adapters.quantize == Quantization::kNone) return;
  Graph g = model::forward(r.model, {1, 1, r.model.encoder_layers > 0 ? 1 : 0});
  for (Value& v : g.values) v.frozen = v.role == Role::kWeight;
  for (const auto& [weight, product] : quantizable_weights(g)) {
    const Value& w = g[weight];
    check_blocks(w, w.shape.rank() - static_cast<int>(product.contract), r.layout.tensor);
  }
}

}  // namespace tessera::compile
