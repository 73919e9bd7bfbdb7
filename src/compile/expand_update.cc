// What the optimizer keeps of a group of weights, and the segments that update them.
//
// Adafactor's second moments are sums over rows and columns of a weight, and a rank has a stretch
// of a flat frame: so each rank adds up what it owns, over the global rows and columns, and the
// sums of all ranks of the stage are added. Every rank then keeps all means, which are a few
// numbers beside the weights, and no layout shows in them.
#include "base/error.h"
#include "compile/expander.h"
#include "ir/builder.h"
#include "ir/names.h"

namespace tessera {
namespace {

// All ranks that hold parts or copies of a stage's weights.
std::string ranks_of_stage(const Mesh& mesh) {
  std::vector<std::string_view> axes;
  for (size_t a = 0; a < kMaxAxes; ++a)
    if (mesh.size[a] > 1 && a != static_cast<size_t>(AxisKind::kPipeline))
      axes.push_back(name_of(static_cast<AxisKind>(a)));
  return fmt::format("{}", fmt::join(axes, "+"));
}

OpKind op_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamW:
      return OpKind::kAdamw;
    case OptimizerKind::kAdafactor:
      return OpKind::kAdafactor;
    case OptimizerKind::kLion:
      return OpKind::kLion;
    case OptimizerKind::kSgd:
      return OpKind::kSgd;
  }
  CHECK(false, "optimizer {}", static_cast<int>(kind));
}

bool keeps_moment1(const OptimizerPolicy& o) {
  return o.kind == OptimizerKind::kAdamW || o.kind == OptimizerKind::kLion || o.beta1 > 0;
}

}  // namespace

bool Expander::has_master(const WeightGroup& g) const {
  const FrameKind& weights = out_.program.kinds[static_cast<size_t>(g.weights)];
  return g_[weights.values[0]].dtype != DType::kF32 && request_.precision != Precision::kBf16Sr;
}

void Expander::optimizer_frames(WeightGroup& g) {
  const OptimizerPolicy& o = request_.optimizer;
  const DType kept = o.bf16_moments ? DType::kBF16 : DType::kF32;
  const auto keep = [&](const char* name, Role role, DType type) {
    g.state.push_back(flat_frame(g, name, role, type, divides(1)));
  };
  if (has_master(g)) keep("master", Role::kMaster, DType::kF32);
  if (keeps_moment1(o)) keep("moment1", Role::kMoment1, kept);
  if (o.kind == OptimizerKind::kAdamW) keep("moment2", Role::kMoment2, kept);
  if (o.kind == OptimizerKind::kAdafactor) factor_frames(g);
}

// A weight as products read it is a matrix [rows, columns]: how many columns; 0 for a vector.
int64_t Expander::columns_of(ValueId weight) const {
  if (!g_[weight].decays) return 0;
  int64_t contract = 1;
  for (const Block& b : g_.blocks)
    for (const Op& op : b.forward)
      if (op.kind == OpKind::kMatmul && op.inputs[1] == weight)
        contract = op.attributes.integer("contract", 1);
  const Shape& s = g_[weight].shape;
  return s.product(s.rank() - static_cast<int>(contract), s.rank());
}

void Expander::factor_frames(WeightGroup& g) {
  const FrameKind weights = out_.program.kinds[static_cast<size_t>(g.weights)];
  const auto make = [&](const std::string& suffix, DType type, bool state) {
    std::vector<ValueId> members;
    const auto add = [&](const std::string& name, int64_t n) {
      Value v;
      v.name = name;
      v.dtype = type;
      v.shape = {n};
      v.role = state ? Role::kFactor : Role::kScratch;
      v.per = weights.per;
      g_.values.push_back(std::move(v));
      members.push_back(static_cast<ValueId>(g_.values.size() - 1));
    };
    const std::string mark = state ? "|" : "|sums.";
    for (const ValueId w : weights.values) {
      const int64_t columns = columns_of(w), elements = g_[w].shape.elements();
      const std::string name = g_[w].name;
      add(name + mark + "rows", columns > 0 ? elements / columns : elements);
      if (columns > 0) add(name + mark + "columns", columns);
    }
    if (!state) add(g.name + ".weight_squares", static_cast<int64_t>(weights.values.size()));
    const FrameKindId kind = frame(g.name + "." + suffix, members, weights.per, state);
    out_.program.kinds.back().stages = weights.stages;
    return kind;
  };
  g.factors = make("factors", DType::kF32, true);
  g.state.push_back(g.factors);
  if (!trains()) return;
  g.factor_sums = make("factor_sums", DType::kF64, false);
  Value squares;
  squares.name = g.name + ".update_squares";
  squares.dtype = DType::kF64;
  squares.shape = {static_cast<int64_t>(weights.values.size())};
  squares.role = Role::kScratch;
  squares.per = weights.per;
  g_.values.push_back(std::move(squares));
  const auto id = static_cast<ValueId>(g_.values.size() - 1);
  g.update_squares = frame(g_[id].name, {id}, weights.per, false);
}

// The flat value of that role which the optimizer keeps, or kNone.
ValueId Expander::kept(const WeightGroup& g, Role role) const {
  for (const FrameKindId k : g.state) {
    const ValueId v = out_.program.kinds[static_cast<size_t>(k)].values[0];
    if (g_[v].role == role && k != g.weights) return v;
  }
  return kNone;
}

// The rank's own part of what is updated.
ValueId Expander::owned_weights(const WeightGroup& g) {
  const ValueId master = kept(g, Role::kMaster);
  if (master != kNone) return flat(g_[master].frame, true);
  return flat(divides(3) ? g.weights_shard : g.weights, true);
}

void Expander::squares_segment(WeightGroup& g) {
  const ValueId report = only(Role::kReport, "report");
  const FrameKindId sums = reduces_each() ? g.gradients_shard : g.gradients;
  const std::string members = out_.program.kinds[static_cast<size_t>(g.weights)].name;
  std::vector<Op> squares;
  Builder(g_, squares, kOne, "")
      .emit(OpKind::kSquares, g.name, {{"members", members}}, {flat(sums, true)}, {report});
  ask_target(g.name, squares);
  g.squares = segment("squares." + g.name, squares);
}

void Expander::factor_segments(WeightGroup& g) {
  const ValueId step = only(Role::kStep, "step"), report = only(Role::kReport, "report");
  const OptimizerPolicy& o = request_.optimizer;
  const FrameKindId gradients = reduces_each() ? g.gradients_shard : g.gradients;
  const std::string members = out_.program.kinds[static_cast<size_t>(g.weights)].name;
  const ValueId sums = flat(g.factor_sums, false), factors = flat(g.factors, false);
  const ValueId squares = out_.program.kinds[static_cast<size_t>(g.update_squares)].values[0];
  const Attributes a = {{"members", members},
                        {"sums", g_[sums].shape[0]},
                        {"factors", g_[factors].shape[0]},
                        {"weights_held", g_[squares].shape[0]},
                        {"epsilon", o.epsilon},
                        {"decay_power", o.decay_power}};
  std::vector<Op> measure, factor;
  Builder(g_, measure, kOne, "")
      .emit(OpKind::kAdafactorSums, g.name, a, {flat(gradients, true), owned_weights(g), report},
            {sums});
  Builder(g_, factor, kOne, "")
      .emit(OpKind::kAdafactorSquares, g.name, a, {flat(gradients, true), step, report, sums},
            {factors, squares});
  ask_target(g.name, measure);
  ask_target(g.name, factor);
  g.measure = segment("measure." + g.name, measure);
  g.factor = segment("factor." + g.name, factor);
  const std::string over = ranks_of_stage(g_.mesh);
  if (over.empty()) return;
  g.sum_measure =
      collective("sum.measure." + g.name, OpKind::kAllReduce, over, sums, sums, Queue::kGroups);
  g.sum_factor = collective("sum.factor." + g.name, OpKind::kAllReduce, over, squares, squares,
                            Queue::kGroups);
}

void Expander::update_segment(WeightGroup& g) {
  const ValueId step = only(Role::kStep, "step"), report = only(Role::kReport, "report");
  const OptimizerPolicy& o = request_.optimizer;
  const FrameKindId sums = reduces_each() ? g.gradients_shard : g.gradients;
  std::vector<ValueId> inputs = {flat(sums, divides(1)), step, report};
  Attributes a = {{"members", out_.program.kinds[static_cast<size_t>(g.weights)].name},
                  {"beta1", o.beta1},
                  {"beta2", o.beta2},
                  {"epsilon", o.epsilon},
                  {"decay", o.weight_decay}};
  if (o.decays_vectors) a.set("decay_vectors", int64_t{1});
  if (g.factors != kNone) {
    inputs.insert(inputs.end(),
                  {flat(g.factor_sums, false), flat(g.factors, false),
                   out_.program.kinds[static_cast<size_t>(g.update_squares)].values[0]});
    a.set("update_clip", o.update_clip);
    a.set("least_scale", o.scale_by_weight ? o.least_scale : 0.0);
  }
  std::vector<ValueId> outputs = {divides(3) ? flat(g.weights_shard, true)
                                             : flat(g.weights, divides(1))};
  for (const Role role : {Role::kMoment1, Role::kMoment2, Role::kMaster})
    if (const ValueId v = kept(g, role); v != kNone) outputs.push_back(v);
  const bool master = has_master(g);
  const DType weights = g_[outputs[0]].dtype;
  if (master) a.set("master", int64_t{1});
  if (weights != (master ? DType::kBF16 : DType::kF32))
    a.set("weights", std::string(name_of(weights)));
  if (o.bf16_moments) a.set("moments", "bf16");
  const bool rounds = (weights != DType::kF32 && !master) || o.bf16_moments;
  if (rounds && o.stochastic) a.set("rounding", "stochastic");
  std::vector<Op> update;
  Builder(g_, update, kOne, "").emit(op_of(o.kind), g.name, a, inputs, outputs);
  ask_target(g.name, update);
  g.update = segment("update." + g.name, update);
}

}  // namespace tessera
