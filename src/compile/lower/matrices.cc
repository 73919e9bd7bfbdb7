// Muon's directions. A matrix is made orthogonal as a whole, but a rank owns a contiguous range of
// a flat buffer, of weights that tensor ranks divide. So each rank writes the directions that it
// owns to a buffer of whole matrices, in which all other elements are zero, and the ranks that
// divide the matrices add their buffers: each element has one term that is not zero, so the sum is
// exact in any layout. Matrices that the tensor ranks do not divide are in a group of their own
// (groups.cc), which these ranks do not add. Every one of the ranks then has all matrices of the
// layer and iterates on them, and updates its own range.
#include <algorithm>

#include "base/error.h"
#include "compile/lower/lowering.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/signature.h"
#include "ir/state/member_ranges.h"

namespace tessera::compile {
namespace {

// Returns true if `weight` has one matrix per expert: up or down of the op, or A or B of adapters.
bool is_of_experts(const Op& op, ValueId weight) {
  if (!op.is<Experts>()) return false;
  constexpr Experts::In kMatrices[] = {Experts::kUp,  Experts::kDown,  Experts::kUpA,
                                       Experts::kUpB, Experts::kDownA, Experts::kDownB};
  return std::any_of(std::begin(kMatrices), std::end(kMatrices),
                     [&](Experts::In slot) { return input(op, slot) == weight; });
}

// Returns the number of matrices that a weight holds: one per expert, otherwise one.
int64_t matrices_of(const Lowering& low, ValueId weight) {
  for (const Block& b : low.graph.blocks)
    for (const Op& op : b.forward)
      if (is_of_experts(op, weight)) return low.graph[weight].shape[0];
  return 1;
}

// Returns the axes along which ranks hold different elements of the group's matrices.
GroupRef ranks_of_matrices(const Lowering& low, const WeightGroup& g) {
  GroupRef group = g.dividing;
  const ZeroPlan& zero = low.context.zero;
  if (zero.divides_optimizer() && zero.shards > 1) group.axes |= state_ranks(low.graph.mesh).axes;
  return group;
}

void direction_buffer(Lowering& low, WeightGroup& g, DType type) {
  const BufferKind weights = low.out.program.kinds[g.weights];
  std::vector<ValueId> members;
  for (const ValueId w : weights.values) {
    const Value weight = low.graph[w];
    const int64_t matrices = matrices_of(low, w), columns = columns_of(low, w);
    CHECK(columns > 0, "{} is not a matrix", weight.name);
    for (const WeightPart& part : parts_of(weight)) {
      const int64_t elements =
          weight.shape.elements() / weight.shape[static_cast<int>(part.dim)] * part.count;
      Value v;
      v.name = weight.name + "|direction" + (part.name.empty() ? "" : "." + part.name);
      v.dtype = type;
      v.shape = {matrices, elements / matrices / columns, columns};
      v.role = Role::kScratch;
      v.indexed_by = weights.indexed_by;
      v.sharding.place[AxisKind::kExpert] = matrices > 1 ? 0 : kReplicated;
      localise(v, low.graph.mesh);
      members.push_back(low.graph.values.push_back(std::move(v)));
    }
  }
  g.directions = buffer(low, g.name + ".directions", members, weights.indexed_by, false);
  low.out.program.kinds[g.directions].stages = weights.stages;
}

}  // namespace

void direction_segments(Lowering& low, WeightGroup& g) {
  const OptimizerPolicy o = low.context.request.policy(g.policy);
  direction_buffer(low, g, o.bf16_newton_schulz ? DType::kBF16 : DType::kF32);
  const BufferKindId gradients = low.context.zero.reduces_each ? g.gradients_shard : g.gradients;
  const bool own = low.context.zero.divides_optimizer();
  const ValueId all = flat(low, g.directions, false);
  const Value directions = low.graph[all];
  std::vector<Op> direction, orthogonalize;
  Builder(low.graph, direction, kOne, "")
      .emit(MuonDirection{.members = g.weights,
                          .elements = directions.shape[0],
                          .momentum = o.momentum,
                          .nesterov = o.nesterov,
                          .type = directions.dtype},
            g.name,
            {flat(low, gradients, own), kept(low, g, Role::kMoment1), only(low, Role::kReport)},
            {all});
  Builder matrices(low.graph, orthogonalize, kOne, "");
  for (const ValueId v : std::vector<ValueId>(low.out.program.kinds[g.directions].values))
    matrices.emit(NewtonSchulz{.members = g.weights,
                               .steps = o.newton_schulz_steps,
                               .coefficients = o.newton_schulz_coefficients},
                  g.name, {v}, {v});
  ask_target(low, direction);
  ask_target(low, orthogonalize);
  g.direction = segment(low, Phase::kDirection, g.name, direction);
  if (const GroupRef over = ranks_of_matrices(low, g); !over.empty())
    g.sum_direction =
        collective(low, Phase::kSumDirection, g.name, AllReduce{}, over, all, all, Queue::kGroups);
  g.orthogonalize = segment(low, Phase::kOrthogonalize, g.name, orthogonalize);
}

}  // namespace tessera::compile
