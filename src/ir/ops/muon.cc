// Rules of Muon's ops. Directions and updates work on flat buffers, Newton–Schulz iterations on
// matrices.
#include <algorithm>

#include "base/error.h"
#include "ir/op.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer_direction(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "muon_direction has {} inputs, expected gradient, moment and report",
        in.size());
  const MuonDirection& a = op.as<MuonDirection>();
  return {{".directions", a.type, {a.elements}}};
}

std::vector<OutputSpec> infer_orthogonal(const Op&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape.rank() == 3, "newton_schulz expects one input [N, R, C]");
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_muon(const Op& op, const Inputs& in) {
  CHECK(in.size() == input_count(op.as<Muon>()),
        "muon has {} inputs, expected gradient, step, report, directions and {} of scores",
        in.size(), op.as<Muon>().scores);
  CHECK((op.as<Muon>().score_limit > 0) == (op.as<Muon>().scores > 0),
        "muon has {} operands with scores and the limit {}", op.as<Muon>().scores,
        op.as<Muon>().score_limit);
  return updated_state(op.as<Muon>().update, in[0]->shape, 1);
}

// The matrices of experts are divided among ranks; a matrix is not.
ShardingRule by_matrix(const Op&, ValueSpan) {
  return {.inputs = {"nrc"}, .outputs = {"nrc"}, .splits = "n", .linear = {}};
}

// Per step, with s <= l: X Xᵀ [s, s], its square, and their sum times X. None of it is a part of
// the model's own FLOPs.
Cost cost_orthogonal(const Op& op, ValueSpan values) {
  const Value& x = values[op.inputs[0]];
  const int64_t rows = x.shape[1], columns = x.shape[2];
  const int64_t s = std::min(rows, columns), l = std::max(rows, columns);
  std::vector<GemmShape> products;
  for (int64_t step = 0; step < op.as<NewtonSchulz>().steps; ++step) {
    products.push_back({x.shape[0], s, s, l, x.dtype});
    products.push_back({x.shape[0], s, s, s, x.dtype});
    products.push_back({x.shape[0], s, l, s, x.dtype});
  }
  Cost c = product_cost(op, values, Work::kScores, std::move(products));
  c.flops.model = c.flops.square = 0;
  return c;
}

}  // namespace

const OpRule MuonDirection::rule = {.infer = infer_direction,
                                    .sharding = whole,
                                    .members = MemberTables::kMatrices,
                                    .time = TimeGroup::kOptimizer,
                                    .effects = {.flat_state = true, .measures_part = true}};
const OpRule NewtonSchulz::rule = {.infer = infer_orthogonal,
                                   .sharding = by_matrix,
                                   .cost = cost_orthogonal,
                                   .in_place = over_first,
                                   .prepared = Prepared::kNewtonSchulz,
                                   .time = TimeGroup::kOptimizer};
const OpRule Muon::rule = {.infer = infer_muon,
                           .sharding = whole,
                           .cost = update_cost,
                           .members = MemberTables::kMatrices,
                           .time = TimeGroup::kOptimizer,
                           .effects = {.updates_weights = true, .flat_state = true}};

}  // namespace tessera
