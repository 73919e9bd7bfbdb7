// Adafactor's second moments are sums over rows and columns of a weight, and a rank has a stretch
// of a flat frame: so each rank adds up what it owns, over the global rows and columns, and the
// sums of all ranks of the stage are added. Every rank then keeps all means, which are a few
// numbers compared with the weights, and no layout shows in them. A packed weight has means for
// each of its parts (Value::parts), as the published model's optimizer has.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compile/expander.h"
#include "ir/builder.h"
#include "ir/names.h"

namespace tessera {
namespace {

// All ranks that hold parts or copies of a stage's weights.
GroupRef ranks_of_stage(const Mesh& mesh) {
  GroupRef group;
  for (size_t a = 0; a < kMaxAxes; ++a)
    if (mesh.size[a] > 1 && a != static_cast<size_t>(AxisKind::kPipeline))
      group.add(static_cast<AxisKind>(a));
  return group;
}

}  // namespace

// A weight as products read it is a matrix [rows, columns]: how many columns; 0 for a vector.
int64_t Expander::columns_of(ValueId weight) const {
  if (!g_[weight].decays) return 0;
  int64_t contract = 1;
  for (const Block& b : g_.blocks)
    for (const Op& op : b.forward)
      if (op.is<Matmul>() && op.inputs[Matmul::kW] == weight) contract = op.as<Matmul>().contract;
  const Shape& s = g_[weight].shape;
  return s.product(s.rank() - static_cast<int>(contract), s.rank());
}

void Expander::factor_frames(WeightGroup& g) {
  const FrameKind weights = out_.program.kinds[g.weights];
  int64_t matrices = 0;
  for (const ValueId w : weights.values) matrices += std::ssize(parts_of(g_[w]));
  const auto make = [&](const std::string& suffix, DType type, bool state) {
    std::vector<ValueId> members;
    const auto add = [&](const std::string& name, int64_t n, ValueId weight) {
      Value v;
      v.name = name;
      v.dtype = type;
      v.shape = {n};
      v.role = state ? Role::kFactor : Role::kScratch;
      v.per = weights.per;
      if (state) v.of = weight;
      members.push_back(g_.values.push_back(std::move(v)));
    };
    const std::string mark = state ? "|" : "|sums.";
    for (const ValueId w : weights.values) {
      const int64_t columns = columns_of(w);
      const Value weight = g_[w];
      for (const WeightPart& part : parts_of(weight)) {
        const int64_t elements =
            weight.shape.elements() / weight.shape[static_cast<int>(part.dim)] * part.count;
        const std::string own = part.name.empty() ? "" : "." + part.name;
        add(weight.name + mark + "rows" + own, columns > 0 ? elements / columns : elements, w);
        if (columns > 0) add(weight.name + mark + "columns" + own, columns, w);
      }
    }
    if (!state) add(g.name + ".weight_squares", matrices, kNone);
    const FrameKindId kind = frame(g.name + suffix, members, weights.per, state);
    out_.program.kinds[kind].stages = weights.stages;
    if (state) out_.program.kinds[kind].factors_of = g.weights;
    return kind;
  };
  g.factors = make(kFactorsSuffix, DType::kF32, true);
  g.state.push_back(g.factors);
  if (!trains()) return;
  g.factor_sums = make(".factor_sums", DType::kF64, false);
  Value squares;
  squares.name = g.name + ".update_squares";
  squares.dtype = DType::kF64;
  squares.shape = {matrices};
  squares.role = Role::kScratch;
  squares.per = weights.per;
  const ValueId id = g_.values.push_back(std::move(squares));
  g.update_squares = frame(g_[id].name, {id}, weights.per, false);
}

void Expander::factor_segments(WeightGroup& g) {
  const ValueId step = only(Role::kStep), report = only(Role::kReport);
  const OptimizerPolicy& o = request_.optimizer;
  const FrameKindId gradients = reduces_each() ? g.gradients_shard : g.gradients;
  const ValueId sums = flat(g.factor_sums, false), factors = flat(g.factors, false);
  const ValueId squares = out_.program.kinds[g.update_squares].values[0];
  const FactorSums a = {.members = g.weights,
                        .sums = g_[sums].shape[0],
                        .factors = g_[factors].shape[0],
                        .weights_held = g_[squares].shape[0],
                        .epsilon = o.epsilon,
                        .decay_power = o.decay_power};
  std::vector<Op> measure, factor;
  Builder(g_, measure, kOne, "")
      .emit(AdafactorSums{a}, g.name, {flat(gradients, true), owned_weights(g), report}, {sums});
  Builder(g_, factor, kOne, "")
      .emit(AdafactorSquares{a}, g.name, {flat(gradients, true), step, report, sums},
            {factors, squares});
  ask_target(measure);
  ask_target(factor);
  g.measure = segment(Phase::kMeasure, g.name, measure);
  g.factor = segment(Phase::kFactor, g.name, factor);
  const GroupRef over = ranks_of_stage(g_.mesh);
  if (over.empty()) return;
  g.sum_measure =
      collective(Phase::kSumMeasure, g.name, AllReduce{}, over, sums, sums, Queue::kGroups);
  g.sum_factor =
      collective(Phase::kSumFactor, g.name, AllReduce{}, over, squares, squares, Queue::kGroups);
}

}  // namespace tessera
