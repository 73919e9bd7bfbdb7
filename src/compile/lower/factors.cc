// Adafactor's factored second moments. They are sums over rows and columns of a weight, but a rank
// owns a contiguous range of a flat buffer. So each rank sums what it owns, by global rows and
// columns, and these sums are added over all ranks of the stage. Every rank then has all means,
// which are few compared with the weights and do not depend on the layout. A packed weight has
// means for each of its parts (Value::parts), as in the published model's optimizer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compile/lower/lowering.h"
#include "ir/builder.h"
#include "ir/names.h"
#include "ir/signature.h"

namespace tessera::compile {
namespace {

// Returns the group of all ranks that hold shards or copies of a stage's weights.
GroupRef ranks_of_stage(const Mesh& mesh) {
  GroupRef group;
  for (const AxisKind a : divided_axes(mesh)) group.add(a);
  return group;
}

}  // namespace

int64_t columns_of(const Lowering& low, ValueId weight) {
  if (!low.graph[weight].decays) return 0;
  int64_t contract = 1;
  for (const Block& b : low.graph.blocks)
    for (const Op& op : b.forward)
      if (op.is<Matmul>() && op.inputs[Matmul::kW] == weight) contract = op.as<Matmul>().contract;
  const Shape& s = low.graph[weight].shape;
  return s.product(s.rank() - static_cast<int>(contract), s.rank());
}

void factor_buffers(Lowering& low, WeightGroup& g) {
  const BufferKind weights = low.out.program.kinds[g.weights];
  int64_t matrices = 0;
  for (const ValueId w : weights.values) matrices += std::ssize(parts_of(low.graph[w]));
  const auto make = [&](const std::string& suffix, DType type, bool state) {
    std::vector<ValueId> members;
    const auto add = [&](const std::string& name, int64_t n, ValueId weight) {
      Value v;
      v.name = name;
      v.dtype = type;
      v.shape = {n};
      v.role = state ? Role::kFactoredMoment : Role::kScratch;
      v.indexed_by = weights.indexed_by;
      if (state) v.of = weight;
      members.push_back(low.graph.values.push_back(std::move(v)));
    };
    const std::string mark = state ? "|" : "|sums.";
    for (const ValueId w : weights.values) {
      const int64_t columns = columns_of(low, w);
      const Value weight = low.graph[w];
      for (const WeightPart& part : parts_of(weight)) {
        const int64_t elements =
            weight.shape.elements() / weight.shape[static_cast<int>(part.dim)] * part.count;
        const std::string own = part.name.empty() ? "" : "." + part.name;
        add(weight.name + mark + "rows" + own, columns > 0 ? elements / columns : elements, w);
        if (columns > 0) add(weight.name + mark + "columns" + own, columns, w);
      }
    }
    if (!state) add(g.name + ".weight_squares", matrices, kNone);
    const BufferKindId kind = buffer(low, g.name + suffix, members, weights.indexed_by, state);
    low.out.program.kinds[kind].stages = weights.stages;
    if (state) low.out.program.kinds[kind].factors_of = g.weights;
    return kind;
  };
  g.factors = make(kFactorsSuffix, DType::kF32, true);
  g.state.push_back(g.factors);
  if (!low.trains()) return;
  g.factor_sums = make(".factor_sums", DType::kF64, false);
  Value squares;
  squares.name = g.name + ".update_squares";
  squares.dtype = DType::kF64;
  squares.shape = {matrices};
  squares.role = Role::kScratch;
  squares.indexed_by = weights.indexed_by;
  const ValueId id = low.graph.values.push_back(std::move(squares));
  g.update_squares = buffer(low, low.graph[id].name, {id}, weights.indexed_by, false);
}

void factor_segments(Lowering& low, WeightGroup& g) {
  const ValueId step = only(low, Role::kStep), report = only(low, Role::kReport);
  const OptimizerPolicy o = low.context.request.policy(g.policy);
  const BufferKindId gradients = low.context.zero.reduces_each ? g.gradients_shard : g.gradients;
  const ValueId sums = flat(low, g.factor_sums, false), factors = flat(low, g.factors, false);
  const ValueId squares = low.out.program.kinds[g.update_squares].values[0];
  const FactorSums a = {.members = g.weights,
                        .sums = low.graph[sums].shape[0],
                        .factors = low.graph[factors].shape[0],
                        .weights_held = low.graph[squares].shape[0],
                        .epsilon = o.epsilon,
                        .decay_power = o.decay_power};
  std::vector<Op> measure, factor;
  Builder(low.graph, measure, kOne, "")
      .emit(AdafactorSums{a}, g.name, {flat(low, gradients, true), owned_weights(low, g), report},
            {sums});
  Builder(low.graph, factor, kOne, "")
      .emit(AdafactorSquares{a}, g.name, {flat(low, gradients, true), step, report, sums},
            {factors, squares});
  ask_target(low, measure);
  ask_target(low, factor);
  g.measure = segment(low, Phase::kMeasure, g.name, measure);
  g.factor = segment(low, Phase::kFactor, g.name, factor);
  const GroupRef over = ranks_of_stage(low.graph.mesh);
  if (over.empty()) return;
  g.sum_measure =
      collective(low, Phase::kSumMeasure, g.name, AllReduce{}, over, sums, sums, Queue::kGroups);
  g.sum_factor = collective(low, Phase::kSumFactor, g.name, AllReduce{}, over, squares, squares,
                            Queue::kGroups);
}

}  // namespace tessera::compile
