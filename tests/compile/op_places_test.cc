// Every op with its real kernels on a mesh of two ranks, its operands at every combination of
// places: what is sound, forward and gradient, are exactly the signatures of its sharding rule.
//
// A combination is sound if, from parts that make up the inputs as their places say, every rank's
// kernel gives parts that make up the outputs as their places say; and from gradients of the
// outputs at the duals of their places, gradients of the inputs at the duals of theirs.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/signature.h"
#include "tests/compile/built_op.h"
#include "tests/compile/lockstep.h"

namespace tessera::testing {
namespace {

using Places = std::vector<Sharding>;  // of the op's inputs, then its outputs

class Soundness {
 public:
  Soundness(const Case& c, Mesh mesh) : case_(c), built_(c), mesh_(mesh) {
    operands_ = built_.op().inputs;
    operands_.insert(operands_.end(), built_.op().outputs.begin(), built_.op().outputs.end());
    Lockstep alone(built_.graph, kernels_);
    for (const ValueId v : built_.given) {
      truth_[v] = contents(built_.graph[v], v);
      alone.write(v, 0, truth_[v]);
    }
    alone.run_ops(built_.forward, 0);
    for (const ValueId v : built_.op().outputs) truth_[v] = alone.read(v, 0);
    alone.run_ops(built_.backward, 0);
    for (const auto& [of, d] : built_.gradient)
      if (!truth_.contains(d)) truth_[d] = alone.read(d, 0);
  }

  const Op& op() const { return built_.op(); }
  const std::vector<ValueId>& operands() const { return operands_; }
  const Value& value(ValueId v) const { return built_.graph[v]; }
  bool is_output(size_t i) const { return i >= op().inputs.size(); }
  bool carries_gradient(size_t i) const {
    return std::any_of(built_.gradient.begin(), built_.gradient.end(),
                       [&](const auto& p) { return p.first == operands_[i]; });
  }
  std::string labels(size_t i) const {
    const ShardingRule r = rule();
    return is_output(i) ? r.outputs[i - r.inputs.size()] : r.inputs[i];
  }
  ShardingRule rule() const { return rule_of(op()).sharding(op(), built_.graph.values); }

  // The places an operand may be tried at. Without a gradient shared is replicated.
  std::vector<int8_t> candidates(size_t i) const {
    const Value& v = value(operands_[i]);
    if (v.role == Role::kReport) return {kPartial};
    std::vector<int8_t> all = {kReplicated};
    if (carries_gradient(i)) all.push_back(kShared);
    if (v.dtype == DType::kF32 || v.dtype == DType::kBF16) all.push_back(kPartial);
    if (is_output(i) && rule().maximum) all.push_back(kPartialMax);
    for (int d = 0; d < v.shape.rank(); ++d)
      if (std::string(case_.whole).find(labels(i)[static_cast<size_t>(d)]) == std::string::npos)
        all.push_back(static_cast<int8_t>(d));
    return all;
  }

  // Whether the rule allows the combination: on every axis one of its signatures.
  bool allowed(const Places& places) const {
    for (const AxisKind a : divided_axes(mesh_)) {
      bool found = false;
      for (const Signature& s : signatures(rule())) {
        bool fit = true;
        for (size_t i = 0; i < places.size() && fit; ++i) {
          const int8_t wanted = is_output(i) ? s.outputs[i - s.inputs.size()] : s.inputs[i];
          fit = fits(value(operands_[i]), places[i].place[a], wanted, !carries_gradient(i));
        }
        found |= fit;
      }
      if (!found) return false;
    }
    return true;
  }

  // Parts of one label have one extent on a rank, or no kernel can be called.
  bool consistent(const Places& places) const {
    std::map<char, int64_t> extents;
    for (size_t i = 0; i < places.size(); ++i) {
      const Shape part = part_shape(value(operands_[i]).shape, places[i], mesh_);
      const Shape& whole = value(operands_[i]).shape;
      for (int d = 0; d < part.rank(); ++d) {
        // A label may name one dimension of k groups and another of its heads: compare the
        // divisors.
        const int64_t parts = whole[d] / part[d];
        if (!extents.try_emplace(labels(i)[static_cast<size_t>(d)], parts).second &&
            extents[labels(i)[static_cast<size_t>(d)]] != parts)
          return false;
      }
    }
    return true;
  }

  bool sound(const Places& places) {
    if (!consistent(places)) return false;
    Graph g = built_.graph;
    g.mesh = mesh_;
    for (size_t i = 0; i < places.size(); ++i) g[operands_[i]].sharding = places[i];
    std::set<ValueId> placed;
    for (const auto& [of, d] : built_.gradient) {
      const Sharding wanted = dual(g[of].sharding);
      // One array that is the gradient of several operands stands at one place.
      if (!placed.insert(d).second && g[d].sharding != wanted) return false;
      g[d].sharding = wanted;
    }
    for (Value& v : g.values) localise(v, mesh_);
    Lockstep machine(g, kernels_);
    for (const ValueId v : built_.given) divide(machine, g, v);
    machine.run_ops(built_.forward, 0);
    for (const ValueId v : op().outputs)
      if (!makes_up(machine, g, v)) return false;
    machine.run_ops(built_.backward, 0);
    return std::all_of(built_.gradient.begin(), built_.gradient.end(),
                       [&](const auto& p) { return makes_up(machine, g, p.second); });
  }

 private:
  // What a rank holds of an element: all of it, or its term where the value is partial.
  double term(const Graph& g, ValueId v, const Coordinates& at, int64_t element) const {
    double total = truth_.at(v)[static_cast<size_t>(element)];
    for (const AxisKind a : divided_axes(mesh_)) {
      if (g[v].sharding.place[a] != kPartial) continue;
      // The first rank of the axis holds what the others, who draw theirs, leave.
      uint64_t key = 77 * static_cast<uint64_t>(v.number() + 1) + static_cast<uint64_t>(a);
      double rest = 0, own = 0;
      for (int64_t c = 1; c < mesh_.size[a]; ++c) {
        const double n = 2 * drawn(key + 1000 * static_cast<uint64_t>(c), element);
        rest += n;
        if (c == at.at[a]) own = n;
      }
      total = at.at[a] == 0 ? total - rest : own;
    }
    return total;
  }

  void divide(Lockstep& machine, const Graph& g, ValueId v) const {
    for (int64_t r = 0; r < mesh_.ranks(); ++r) {
      const TensorView t = machine.view(r, v, 0);
      machine.each_element(v, r, [&](int64_t global, int64_t local) {
        Lockstep::put(t, local, term(g, v, coordinates_of(mesh_, r), global));
      });
    }
  }

  static bool near(double a, double b, double scale) {
    if (std::isinf(a) && a == b) return true;
    return std::abs(a - b) <= 2e-4 * scale;
  }

  // Whether what the ranks hold is the true value as its places say.
  bool makes_up(Lockstep& machine, const Graph& g, ValueId v) const {
    const Array& truth = truth_.at(v);
    double scale = 1;
    for (const double t : truth)
      if (std::isfinite(t)) scale = std::max(scale, std::abs(t));
    Array all = machine.read(v, 0);
    bool maximum = false, same = true;
    for (const AxisKind a : Enumerators<AxisKind>())
      maximum |= g[v].sharding.place[a] == kPartialMax;
    if (maximum) std::fill(all.begin(), all.end(), -1e30);
    for (int64_t r = 0; r < mesh_.ranks(); ++r) {
      Coordinates first = coordinates_of(mesh_, r);
      for (const AxisKind a : Enumerators<AxisKind>()) {
        const int8_t p = g[v].sharding.place[a];
        if (p == kReplicated || p == kShared || p == kPartialMax) first.at[a] = 0;
      }
      const TensorView own = machine.view(r, v, 0),
                       other = machine.view(rank_of(mesh_, first), v, 0);
      machine.each_element(v, r, [&](int64_t global, int64_t local) {
        const double x = Lockstep::get(own, local);
        double& total = all[static_cast<size_t>(global)];
        if (maximum) total = std::max(total, x);
        same &= near(x, Lockstep::get(other, local), scale);
      });
    }
    // Where all ranks have the same it is the value itself, no part of a maximum.
    if (maximum ? same : !same) return false;
    for (size_t i = 0; i < truth.size(); ++i)
      if (!near(all[i], truth[i], scale)) return false;
    return true;
  }

  const Case& case_;
  Built built_;
  Mesh mesh_;
  runtime::PreparedKernels kernels_{CpuFeatures(), 1};
  std::vector<ValueId> operands_;
  std::map<ValueId, Array> truth_;
};

Mesh two_ranks() {
  Mesh m;
  m[AxisKind::kTensor] = 2;
  return m;
}

std::string text(const Soundness& s, const Places& places, AxisKind axis) {
  std::string t;
  for (size_t i = 0; i < places.size(); ++i)
    t += fmt::format("{}{}", i == s.op().inputs.size() ? " -> " : " ", places[i].place[axis]);
  return t;
}

// Calls visit for every combination of candidates on one axis.
void each_combination(const Soundness& s, AxisKind axis,
                      const std::function<void(const Places&)>& visit) {
  Places places(s.operands().size());
  const std::function<void(size_t)> choose = [&](size_t i) {
    if (i == places.size()) return visit(places);
    for (const int8_t p : s.candidates(i)) {
      places[i].place[axis] = p;
      choose(i + 1);
    }
  };
  choose(0);
}

void expect_exact(const Case& c) {
  Soundness s(c, two_ranks());
  const AxisKind axis = AxisKind::kTensor;
  int sound = 0;
  each_combination(s, axis, [&](const Places& places) {
    const bool is = s.sound(places), may = s.allowed(places);
    sound += is ? 1 : 0;
    const bool needless =
        std::find(c.needless.begin(), c.needless.end(), text(s, places, axis)) != c.needless.end();
    if (needless) {
      EXPECT_TRUE(is && !may) << c.name << ":" << text(s, places, axis);
      return;
    }
    EXPECT_EQ(is, may) << c.name << ":" << text(s, places, axis)
                       << (is ? " is sound, no signature" : " is a signature, not sound");
  });
  const bool by_sequences = s.op().is<RouterLoss>() || s.op().is<ExpertCapacity>();
  EXPECT_GE(sound, by_sequences ? 2 : 3) << c.name;
}

TEST(OpPlaces, SoundForwardsAreTheSignatures) {
  for (const Case& c : forwards()) expect_exact(c);
}
TEST(OpPlaces, SoundBackwardsAreTheSignatures) {
  for (const Case& c : backwards()) expect_exact(c);
}

// Two axes: sound on both by themselves is sound together, also where they divide one dimension.
TEST(OpPlaces, AxesAreIndependent) {
  Mesh mesh;
  mesh[AxisKind::kShard] = mesh[AxisKind::kTensor] = 2;
  const AxisKind outer = AxisKind::kShard, inner = AxisKind::kTensor;
  const Case c = {"matmul", Matmul{}, {x({4, 4, 8}), weight({4, 8})}};
  Soundness both(c, mesh);
  std::vector<Places> some;
  int every = 0;
  each_combination(both, outer, [&](const Places& p) {
    Places alone = p;
    if (every++ % 23 == 0) return some.push_back(p);
    if (both.allowed(alone)) some.push_back(p);
  });
  int sound = 0;
  for (const Places& a : some)
    for (const Places& b : some) {
      Places joint = a;
      for (size_t i = 0; i < joint.size(); ++i) joint[i].place[inner] = b[i].place[outer];
      const bool is = both.sound(joint);
      sound += is ? 1 : 0;
      EXPECT_EQ(is, both.allowed(joint))
          << text(both, joint, outer) << " and" << text(both, joint, inner);
    }
  EXPECT_GE(sound, 64);
}

}  // namespace
}  // namespace tessera::testing
