// Verifies relations between ops: packed weights, the pieces of one reduction, gradients and their
// ops, experts and their weights; also the bytes that a target's libraries need.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/mesh.h"
#include "ir/names.h"
#include "ir/rule.h"
#include "ir/verify.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

// Returns true if `pack` produces the layout that the GEMM reads: for the same weight and the same
// GEMM.
bool packs_for(const Op& pack, const Op& product) {
  const Pack& a = pack.as<Pack>();
  if (product.inputs.size() != 2 || product.inputs[1] != pack.inputs.at(0)) return false;
  if (const Matmul* const m = product.if_as<Matmul>())
    return a.product == PackedProduct::kMatmul && a.attributes == *m;
  if (const MatmulGradInput* const m = product.if_as<MatmulGradInput>())
    return a.product == PackedProduct::kMatmulGradInput &&
           a.attributes == Matmul{.contract = m->contract, .scale = m->scale, .fp8 = m->fp8};
  return false;
}

// Verifies that each packed weight is written by one op, for the GEMMs that read it.
Findings verify_packs(const Program& p) {
  std::map<ValueId, std::pair<const Segment*, const Op*>> packs;
  std::set<ValueId> fitting;  // packed weights whose `rows` match a GEMM
  Findings findings;
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (op.is<Pack>() && !packs.try_emplace(op.outputs.at(0), &s, &op).second)
        findings.push_back(fmt::format("{}: packs {} a second time", op_name(op, s.name()),
                                       p[op.outputs[0]].name));
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) {
      if (op.packed == kNone) continue;
      const auto found = packs.find(op.packed);
      if (found == packs.end() || !packs_for(*found->second.second, op)) {
        findings.push_back(fmt::format("{}: no op packs {} for this GEMM", op_name(op, s.name()),
                                       p[op.packed].name));
        continue;
      }
      const int64_t rows = found->second.second->as<Pack>().rows;
      if (p[op.inputs[0]].local().elements() == rows) fitting.insert(op.packed);
    }
  for (const auto& [v, pack] : packs)
    if (!fitting.contains(v))
      findings.push_back(fmt::format("{}: rows = {}, but no GEMM that reads {} has that many",
                                     op_name(*pack.second, pack.first->name()),
                                     pack.second->as<Pack>().rows, p[v].name));
  return findings;
}

// Returns the number of pieces of a reduction, and the index of this piece; 1 and 0 for any other
// op.
std::pair<int64_t, int64_t> piece_number(const Op& op) {
  if (const AllReduce* const a = op.if_as<AllReduce>()) return {a->pieces, a->piece};
  if (const ReduceScatter* const a = op.if_as<ReduceScatter>()) return {a->pieces, a->piece};
  return {1, 0};
}

// Verifies that the pieces of a reduction follow each other: of n ops the i-th computes piece i of
// n.
Findings verify_pieces(const Segment& s) {
  Findings findings;
  int64_t next = 0;
  for (const Op& op : s.ops) {
    const auto [pieces, piece] = piece_number(op);
    if (piece != next || pieces > std::ssize(s.ops))
      findings.push_back(fmt::format("{}: is piece {} of {}, expected piece {}",
                                     op_name(op, s.name()), piece, pieces, next));
    next = piece + 1 < pieces ? piece + 1 : 0;
  }
  if (next != 0) findings.push_back(fmt::format("{}: piece {} is missing", s.name(), next));
  return findings;
}

// Calls visit(op, segment) for all ops.
template <class Visit>
void each_op(const Program& p, const Visit& visit) {
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) visit(op, s);
}

// Verifies attributes that several ops share: ops of one origin, or ops with one table of members.
class CommonAttributes {
 public:
  explicit CommonAttributes(const Program& p) : p_(p) {}

  Findings run() {
    each_op(p_, [&](const Op& op, const Segment&) { note(op); });
    each_op(p_, [&](const Op& op, const Segment& s) { look(op, s); });
    return std::move(findings_);
  }

 private:
  void note(const Op& op) {
    if (const Attention* const a = op.if_as<Attention>()) {
      attentions_[op.origin].push_back(*a);
      attentions_[op.origin].back().sinks = false;  // as in the gradient, which reads lse instead
    }
    if (const AttentionScores* const a = op.if_as<AttentionScores>())
      scores_[op.origin].push_back(*a);
    if (const Gelu* const a = op.if_as<Gelu>()) gelus_[op.origin].push_back(*a);
    if (const Route* const a = op.if_as<Route>())
      routes_[op.origin].push_back({a->score, a->renormalize, a->scale});
    if (const Dropout* const a = op.if_as<Dropout>()) dropouts_.try_emplace(op.origin, *a);
    if (const AdafactorSums* const a = op.if_as<AdafactorSums>())
      sums_.try_emplace(a->of.members, a->of);
    if (const MuonDirection* const a = op.if_as<MuonDirection>())
      momentums_.try_emplace(a->members, a->momentum);
  }

  void look(const Op& op, const Segment& s) {
    if (const AttentionGrad* const a = op.if_as<AttentionGrad>())
      expect_one_of(op, s, attentions_, a->of);
    if (const AttentionScoresGrad* const a = op.if_as<AttentionScoresGrad>())
      expect_one_of(op, s, scores_, a->of);
    if (const GeluGrad* const a = op.if_as<GeluGrad>()) expect_one_of(op, s, gelus_, a->of);
    if (const RouteGrad* const a = op.if_as<RouteGrad>()) expect_one_of(op, s, routes_, *a);
    const auto drop = dropouts_.find(op.origin);
    const Dropout* const again = op.if_as<Dropout>();
    const DropoutGrad* const grad = op.if_as<DropoutGrad>();
    if (drop != dropouts_.end())
      expect((again == nullptr || (again->p == drop->second.p && again->key == drop->second.key)) &&
                 (grad == nullptr || grad->p == drop->second.p),
             op, s);
    if (const AdafactorSquares* const a = op.if_as<AdafactorSquares>())
      expect(sums_.contains(a->of.members) && sums_.at(a->of.members) == a->of, op, s);
    if (const Muon* const a = op.if_as<Muon>()) {
      const auto found = momentums_.find(a->update.members);
      expect(found != momentums_.end() && found->second == a->update.beta1, op, s);
    }
  }

  template <class A>
  void expect_one_of(const Op& op, const Segment& s,
                     const std::map<std::string, std::vector<A>>& known, const A& of) {
    const auto found = known.find(op.origin);
    if (found == known.end()) return;
    expect(std::find(found->second.begin(), found->second.end(), of) != found->second.end(), op, s);
  }

  void expect(bool same, const Op& op, const Segment& s) {
    if (!same)
      findings_.push_back(fmt::format("{}: its attributes differ from those of the forward op",
                                      op_name(op, s.name())));
  }

  const Program& p_;
  std::map<std::string, std::vector<Attention>> attentions_;
  std::map<std::string, std::vector<AttentionScores>> scores_;
  std::map<std::string, std::vector<Gelu>> gelus_;
  std::map<std::string, std::vector<RouteGrad>> routes_;  // the gradients that routes need
  std::map<std::string, Dropout> dropouts_;
  std::map<BufferKindId, FactorSums> sums_;
  std::map<BufferKindId, double> momentums_;  // momentum of Muon's directions
  Findings findings_;
};

// Verifies that a reduction that converts what it sends has a workspace for it.
Findings verify_staging(const Program& p, const ValueVector& local) {
  Findings findings;
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) {
      if (!is_staged(op) || op.workspace == kNone) continue;
      const int64_t needed = staged_bytes(op, local), found = p[op.workspace].bytes();
      if (found < needed)
        findings.push_back(fmt::format("{}: has a workspace of {} bytes, expected {}",
                                       op_name(op, s.name()), found, needed));
    }
  return findings;
}

// Returns the input of an op whose first dimension is the experts of the model, and the number of
// experts that the op states; none for other ops.
std::optional<std::pair<ValueId, int64_t>> stated_experts(const Op& op) {
  if (const Experts* const a = op.if_as<Experts>())
    return {{op.inputs.at(Experts::kUp), a->experts}};
  if (const ExpertsGrad* const a = op.if_as<ExpertsGrad>())
    return {{op.inputs.at(ExpertsGrad::kUp), a->experts}};
  if (const ExpertBias* const a = op.if_as<ExpertBias>())
    return {{op.inputs.at(ExpertBias::kBias), a->experts}};
  if (const ExpertBiasGrad* const a = op.if_as<ExpertBiasGrad>())
    return {{op.inputs.at(ExpertBiasGrad::kBias), a->experts}};
  return {};
}

Findings verify_experts(const Program& p, const Segment& s) {
  Findings findings;
  for (const Op& op : s.ops)
    if (const auto stated = stated_experts(op);
        stated && p[stated->first].shape[0] != stated->second)
      findings.push_back(fmt::format("{}: expects {} experts, but {} has {}", op_name(op, s.name()),
                                     stated->second, p[stated->first].name,
                                     p[stated->first].shape[0]));
  return findings;
}

}  // namespace

Findings verify_products(const Program& p) {
  Findings findings = verify_packs(p);
  for (const Segment& s : p.segments) {
    append(findings, verify_pieces(s));
    append(findings, verify_experts(p, s));
  }
  append(findings, CommonAttributes(p).run());
  if (findings.empty()) append(findings, verify_staging(p, local_values(p.values)));
  return findings;
}

Findings verify_target(const Program& p, const Target& target) {
  const ValueVector local = local_values(p.values);
  Findings findings;
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) {
      if (op.workspace != kNone) {
        const int64_t needed = target.workspace_bytes(op, local);
        if (p[op.workspace].bytes() < needed)
          findings.push_back(fmt::format("{}: has a workspace of {} bytes, but the target needs {}",
                                         op_name(op, s.name()), p[op.workspace].bytes(), needed));
      }
      if (op.packed != kNone && p[op.packed].bytes() != target.packed_bytes(op, local))
        findings.push_back(fmt::format(
            "{}: has a packed weight of {} bytes, but the target needs {}", op_name(op, s.name()),
            p[op.packed].bytes(), target.packed_bytes(op, local)));
    }
  return findings;
}

}  // namespace tessera
