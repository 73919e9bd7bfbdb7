// The experts and their adapters against the formulas in double precision.
#include "kernels/experts.h"

#include <algorithm>
#include <functional>

#include "kernels/adapted_experts.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

// Returns the experts of a token in rising order.
using Choice = std::function<std::vector<int64_t>(int64_t token)>;

struct Problem {
  int64_t n, h, i, e, k;
  DType t = DType::kF32;
  Array x, dy, up, down, weights, choice, up_bias;
  GateKind gate = GateKind::kSilu;
  bool biased = false;

  Problem(int64_t tokens, int64_t hidden, int64_t inner, int64_t experts, int64_t chosen,
          const Choice& choose, DType type = DType::kF32)
      : n(tokens), h(hidden), i(inner), e(experts), k(chosen), t(type) {
    x = Array::random({n, h}, 1, t);
    dy = Array::random({n, h}, 2, t);
    up = Array::random({e, i, 2, h}, 3, t, 0.5);
    down = Array::random({e, h, i}, 4, t, 0.5);
    weights = Array::random({n, k}, 5);
    choice = Array({n, k}, DType::kI32);
    for (int64_t token = 0; token < n; ++token)
      for (int64_t j = 0; j < k; ++j)
        choice.set(token * k + j, static_cast<double>(choose(token)[static_cast<size_t>(j)]));
    // In f32, some gates and values are beyond their limits; in 16 bits, rounding would decide
    // which.
    up_bias = Array::random({e, i, 2}, 6, t, t == DType::kF32 ? 8 : 3);
  }
  // As in gpt-oss.
  Problem clamped_and_biased() && {
    gate = GateKind::kClamped;
    biased = true;
    return std::move(*this);
  }
};

Choice spread(int64_t experts, int64_t chosen) {
  return [=](int64_t token) {
    std::vector<int64_t> out;
    const int64_t first = token * token * 7 % (experts - chosen + 1);
    for (int64_t j = 0; j < chosen; ++j) out.push_back(first + j);
    return out;
  };
}
Choice all_to(std::vector<int64_t> experts) {
  return [experts](int64_t) { return experts; };
}

using Numbers = std::vector<double>;

struct Gated {
  double y, by_gate, by_value;
};
Gated gated(GateKind kind, double gate, double value) {
  const bool clamped = kind == GateKind::kClamped;
  const double steep = clamped ? 1.702 : 1, g = clamped ? std::min(gate, 7.0) : gate;
  const double factor = clamped ? std::clamp(value, -7.0, 7.0) + 1 : value;
  const double s = 1 / (1 + std::exp(-steep * g)), slope = s + g * s * (1 - s) * steep;
  return {g * s * factor, clamped && gate > 7 ? 0 : slope * factor,
          clamped && std::abs(value) > 7 ? 0 : g * s};
}

// Computes in double, pair by pair, with the experts [first, last) only.
struct Reference {
  Numbers y, dx, dw, dup, ddown, pairs, dup_bias;

  Reference(const Problem& p, int64_t first, int64_t last)
      : y(size(p.n * p.h)),
        dx(size(p.n * p.h)),
        dw(size(p.n * p.k)),
        dup(size((last - first) * p.i * 2 * p.h)),
        ddown(size((last - first) * p.h * p.i)),
        pairs(size(p.n * p.k * p.i * 2)),
        dup_bias(size((last - first) * p.i * 2)) {
    for (int64_t row = 0; row < p.n * p.k; ++row) {
      const auto e = static_cast<int64_t>(p.choice.at(row));
      if (e >= first && e < last) add(p, row, e, first);
    }
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  void add(const Problem& p, int64_t row, int64_t e, int64_t first) {
    const int64_t token = row / p.k;
    const double w = p.weights.at(row);
    for (int64_t m = 0; m < p.i; ++m) {
      const auto bias = [&](int64_t part) {
        return p.biased ? p.up_bias.at((e * p.i + m) * 2 + part) : 0;
      };
      double gate = bias(0), value = bias(1), dh = 0;
      const int64_t pair = (e * p.i + m) * 2 * p.h;
      for (int64_t f = 0; f < p.h; ++f) {
        gate += p.x.at(token * p.h + f) * p.up.at(pair + f);
        value += p.x.at(token * p.h + f) * p.up.at(pair + p.h + f);
        dh += p.dy.at(token * p.h + f) * p.down.at((e * p.h + f) * p.i + m);
      }
      pairs[size((row * p.i + m) * 2)] = gate;
      pairs[size((row * p.i + m) * 2 + 1)] = value;
      const Gated gates = gated(p.gate, gate, value);
      const double h = gates.y;
      dw[size(row)] += h * dh;
      const double dgate = w * dh * gates.by_gate, dvalue = w * dh * gates.by_value;
      dup_bias[size(((e - first) * p.i + m) * 2)] += dgate;
      dup_bias[size(((e - first) * p.i + m) * 2 + 1)] += dvalue;
      for (int64_t f = 0; f < p.h; ++f) {
        const int64_t at = token * p.h + f, own = (pair - first * p.i * 2 * p.h) + f;
        y[size(at)] += w * h * p.down.at((e * p.h + f) * p.i + m);
        dx[size(at)] += dgate * p.up.at(pair + f) + dvalue * p.up.at(pair + p.h + f);
        dup[size(own)] += dgate * p.x.at(at);
        dup[size(own + p.h)] += dvalue * p.x.at(at);
        ddown[size(((e - first) * p.h + f) * p.i + m)] += w * h * p.dy.at(at);
      }
    }
  }
};

constexpr int64_t kGuard = 256;  // bytes after a workspace that must stay zero

struct Results {
  Array y, dx, dw, dup, ddown, pairs, dup_bias;
};

// Returns the initial value of the saved pairs, of which a rank with all experts writes each.
double given_pairs(const Problem& p, int64_t first, int64_t last) {
  return last - first == p.e ? 9 : 0;
}

// Runs the experts [first, last) as a rank that has only these. `given`: the initial value of the
// weights' gradients, which the kernel adds to.
Results run(const Problem& p, int64_t first, int64_t last, bool saves, int threads,
            double given = 0) {
  const int64_t own = last - first;
  ExpertsShape s;
  s.tokens = p.n;
  s.hidden = p.h;
  s.inner = p.i;
  s.experts = own;
  s.all_experts = p.e;
  s.chosen = p.k;
  s.dtype = p.t;
  s.pairs = saves;
  s.gate = p.gate;
  Results r = {Array({p.n, p.h}, p.t),
               Array({p.n, p.h}, p.t),
               Array::full({p.n, p.k}, 9),
               Array::full({own, p.i, 2, p.h}, given),
               Array::full({own, p.h, p.i}, given),
               Array::full({p.n, p.k, p.i, 2}, given_pairs(p, first, last), p.t),
               Array::full({own, p.i, 2}, given)};
  ExpertsOperands o;
  o.x = p.x.data();
  o.choice = p.choice.as<int32_t>();
  o.weights = p.weights.as<float>();
  o.up = p.up.as<std::byte>() + first * p.i * 2 * p.h * size_of(p.t);
  o.down = p.down.as<std::byte>() + first * p.i * p.h * size_of(p.t);
  if (p.biased) o.up_bias = p.up_bias.as<std::byte>() + first * p.i * 2 * size_of(p.t);
  o.first = first;
  o.pairs = r.pairs.data();
  o.y = r.y.data();
  const auto computes = [&] {
    const CpuExperts experts(s, read_cpu_features(), threads);
    const HostBuffer workspace("workspace", experts.workspace_bytes() + kGuard);  // aligned, zero
    experts.run({.workspace = workspace.data(), .threads = threads}, o);
    for (int64_t b = 0; b < kGuard; ++b)
      ASSERT_EQ(workspace.data()[experts.workspace_bytes() + b], std::byte{0});
  };
  computes();
  s.gradient = true;
  o.dy = p.dy.data();
  o.dx = r.dx.data();
  o.d_weights = r.dw.as<float>();
  o.d_up = r.dup.data();
  o.d_down = r.ddown.data();
  if (p.biased) o.d_up_bias = r.dup_bias.data();
  o.fresh_up = o.fresh_down = given == 0;
  o.fresh_up_bias = p.biased && given == 0;
  computes();
  return r;
}

void expect_close(const Results& r, const Reference& w, double bound) {
  EXPECT_LT(distance(r.y, w.y), bound);
  EXPECT_LT(distance(r.dx, w.dx), bound);
  EXPECT_LT(distance(r.dw, w.dw), bound);
  EXPECT_LT(distance(r.dup, w.dup), bound);
  EXPECT_LT(distance(r.ddown, w.ddown), bound);
}

TEST(Experts, AreTheFormula) {
  const Problem problems[] = {
      {1, 8, 3, 2, 1, spread(2, 1)},     {5, 16, 7, 4, 2, spread(4, 2)},
      {67, 24, 10, 8, 3, spread(8, 3)},  {70, 16, 8, 4, 2, all_to({1, 2})},
      {300, 32, 16, 6, 2, spread(6, 2)}, {40, 16, 8, 3, 3, all_to({0, 1, 2})},
      {33, 16, 8, 64, 2, spread(64, 2)},
  };
  for (const Problem& p : problems)
    for (const bool saves : {false, true})
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message() << p.n << " tokens, " << p.e << " experts, " << saves);
        const Reference wanted(p, 0, p.e);
        const Results r = run(p, 0, p.e, saves, threads);
        expect_close(r, wanted, 2e-6);
        if (saves) {
          EXPECT_LT(distance(r.pairs, wanted.pairs), 1e-6);
        }
      }
}

// Removes some pairs of a problem: all of tokens 3, 10, 17, …, and the second ones of even tokens.
Problem dropping(Problem p) {
  for (int64_t pair = 0; pair < p.n * p.k; ++pair) {
    const int64_t token = pair / p.k, j = pair % p.k;
    if (token % 7 == 3 || (token % 2 == 0 && j == 1)) p.choice.set(pair, -1);
  }
  return p;
}

// A dropped pair adds nothing, its weight has no gradient, and its saved pair is 0.
TEST(Experts, SkipDroppedPairs) {
  for (const DType t : {DType::kF32, DType::kBF16})
    for (const bool biased : {false, true})
      for (const bool saves : {false, true}) {
        Problem p = dropping(Problem(90, 32, 16, 4, 2, spread(4, 2), t));
        if (biased) p = std::move(p).clamped_and_biased();
        const Reference expected(p, 0, p.e);
        const Results r = run(p, 0, p.e, saves, 2);
        const double bound = t == DType::kF32 ? 2e-6 : 3 * tolerance(t);
        expect_close(r, expected, bound);
        if (biased) {
          EXPECT_LT(distance(r.dup_bias, expected.dup_bias), bound);
        }
        for (int64_t f = 0; f < p.h; ++f) EXPECT_EQ(r.y.at(3 * p.h + f), 0);
        EXPECT_EQ(r.dw.at(1), 0);
        if (saves) {
          EXPECT_LT(distance(r.pairs, expected.pairs), bound);
        }
      }
}

TEST(Experts, WithoutAnyPairAreZero) {
  const Problem p(20, 16, 8, 4, 2, all_to({-1, -1}));
  const Results r = run(p, 0, p.e, true, 1);
  for (const Array* a : {&r.y, &r.dx, &r.dw, &r.dup, &r.ddown, &r.pairs})
    for (int64_t i = 0; i < a->size(); ++i) ASSERT_EQ(a->at(i), 0);
}

TEST(Experts, InHalves) {
  for (const DType t : {DType::kBF16, DType::kF16}) {
    const Problem p(90, 32, 16, 4, 2, spread(4, 2), t);
    const Reference wanted(p, 0, p.e);
    for (const bool saves : {false, true})
      expect_close(run(p, 0, p.e, saves, 2), wanted, 3 * tolerance(t));
  }
}

TEST(Experts, ClampedAndWithBiasesAreTheFormula) {
  for (const DType t : {DType::kF32, DType::kBF16}) {
    const Problem p = Problem(90, 32, 16, 4, 2, spread(4, 2), t).clamped_and_biased();
    const Reference wanted(p, 0, p.e), part(p, 1, 3);
    const double bound = t == DType::kF32 ? 2e-6 : 3 * tolerance(t);
    for (const bool saves : {false, true}) {
      const Results all = run(p, 0, p.e, saves, 2), own = run(p, 1, 3, saves, 2);
      expect_close(all, wanted, bound);
      EXPECT_LT(distance(all.dup_bias, wanted.dup_bias), bound);
      expect_close(own, part, bound);
      EXPECT_LT(distance(own.dup_bias, part.dup_bias), bound);
      if (saves) {
        EXPECT_LT(distance(all.pairs, wanted.pairs), bound);
      }
    }
  }
}

TEST(Experts, GradientsOfBiasesAreAddedToAndThreadsDoNotChangeTheirBits) {
  const Problem p = Problem(700, 16, 8, 4, 2, all_to({1, 3})).clamped_and_biased();
  Reference wanted(p, 0, p.e);
  for (double& x : wanted.dup_bias) x += 3;
  EXPECT_LT(distance(run(p, 0, p.e, false, 1, 3).dup_bias, wanted.dup_bias), 1e-6);
  const Results fresh = run(p, 0, p.e, false, 1);
  for (int64_t i = 0; i < 2 * p.i; ++i) EXPECT_EQ(fresh.dup_bias.at(i), 0);
  expect_same_for_any_threads([&](int threads) { return run(p, 0, 4, true, threads).dup_bias; });
}

TEST(Experts, GradientsOfWeightsAreAddedTo) {
  const Problem p(20, 16, 8, 4, 2, spread(4, 2));
  Reference wanted(p, 0, p.e);
  for (double& x : wanted.dup) x += 3;
  for (double& x : wanted.ddown) x += 3;
  const Results r = run(p, 0, p.e, false, 1, 3);
  EXPECT_LT(distance(r.dup, wanted.dup), 1e-6);
  EXPECT_LT(distance(r.ddown, wanted.ddown), 1e-6);
}

// The gradients of an expert without tokens are zeros where they are written.
TEST(Experts, UnusedOnesHaveZeroGradients) {
  const Problem p(20, 16, 8, 4, 2, all_to({1, 3}));
  const Results r = run(p, 0, p.e, false, 1);
  for (int64_t i = 0; i < p.i * 2 * p.h; ++i) EXPECT_EQ(r.dup.at(i), 0);
  for (int64_t i = 0; i < p.h * p.i; ++i) EXPECT_EQ(r.ddown.at(2 * p.h * p.i + i), 0);
}

// The outputs of ranks that divide the experts sum to those of one rank; gradients of weights are
// bitwise equal.
TEST(Experts, RanksAddUp) {
  const Problem p(150, 32, 16, 8, 3, spread(8, 3));
  const Results all = run(p, 0, 8, false, 1);
  Numbers y(static_cast<size_t>(all.y.size())), dw(static_cast<size_t>(all.dw.size()));
  for (int64_t first = 0; first < 8; first += 2) {
    const Results own = run(p, first, first + 2, false, 1);
    expect_close(own, Reference(p, first, first + 2), 2e-6);
    for (size_t i = 0; i < y.size(); ++i) y[i] += own.y.at(static_cast<int64_t>(i));
    for (size_t i = 0; i < dw.size(); ++i) dw[i] += own.dw.at(static_cast<int64_t>(i));
    const int64_t n = own.dup.size(), m = own.ddown.size();
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(own.dup.at(i), all.dup.at(first / 2 * n + i));
    for (int64_t i = 0; i < m; ++i) ASSERT_EQ(own.ddown.at(i), all.ddown.at(first / 2 * m + i));
  }
  EXPECT_LT(distance(all.y, y), 1e-6);
  EXPECT_LT(distance(all.dw, dw), 1e-6);
}

TEST(Experts, ThreadsDoNotChangeBits) {
  const Problem p(150, 32, 16, 8, 3, spread(8, 3));
  for (Array Results::*part : {&Results::y, &Results::dx, &Results::dw, &Results::dup})
    expect_same_for_any_threads([&](int threads) { return run(p, 0, 8, true, threads).*part; });
}

// The workspace hardly grows with the number of experts.
TEST(Experts, WorkspaceIsThatOfATile) {
  ExpertsShape s{.tokens = 4096,
                 .hidden = 64,
                 .inner = 32,
                 .experts = 8,
                 .chosen = 2,
                 .all_experts = 8,
                 .gradient = true};
  const CpuFeatures cpu = read_cpu_features();
  const int64_t few = CpuExperts(s, cpu, 1).workspace_bytes();
  s.experts = s.all_experts = 64;
  EXPECT_LT(CpuExperts(s, cpu, 1).workspace_bytes(), few + 64 * 16);
}

// ---- Adapters

// The matrices a [E, R, inputs] and b [E, outputs, R] of an adapter of w [E, outputs, inputs].
struct Adapter {
  int64_t experts, outputs, inputs, rank;
  Array a, b;

  Adapter(int64_t e, int64_t out, int64_t in, int64_t r, uint64_t seed, DType t)
      : experts(e),
        outputs(out),
        inputs(in),
        rank(r),
        a(Array::random({e, r, in}, seed, t, 0.5)),
        b(Array::random({e, out, r}, seed + 1, t, 0.5)) {}

  int64_t at_a(int64_t e, int64_t r, int64_t i) const { return (e * rank + r) * inputs + i; }
  int64_t at_b(int64_t e, int64_t o, int64_t r) const { return (e * outputs + o) * rank + r; }
  int64_t at_w(int64_t e, int64_t o, int64_t i) const { return (e * outputs + o) * inputs + i; }
  // Calls f(e, o, r, i) for all of them.
  template <class F>
  void each(const F& f) const {
    for (int64_t e = 0; e < experts; ++e)
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t r = 0; r < rank; ++r)
          for (int64_t i = 0; i < inputs; ++i) f(e, o, r, i);
  }
  // w += scale · b a
  void add_to(Array& w, double scale) const {
    Numbers sums(static_cast<size_t>(w.size()));
    each([&](int64_t e, int64_t o, int64_t r, int64_t i) {
      sums[static_cast<size_t>(at_w(e, o, i))] += scale * b.at(at_b(e, o, r)) * a.at(at_a(e, r, i));
    });
    for (int64_t i = 0; i < w.size(); ++i) w.set(i, w.at(i) + sums[static_cast<size_t>(i)]);
  }
  // The gradients of a and b, given that of the sum.
  std::pair<Numbers, Numbers> gradients(const Numbers& dw, double scale) const {
    Numbers da(static_cast<size_t>(a.size())), db(static_cast<size_t>(b.size()));
    each([&](int64_t e, int64_t o, int64_t r, int64_t i) {
      const double d = scale * dw[static_cast<size_t>(at_w(e, o, i))];
      da[static_cast<size_t>(at_a(e, r, i))] += d * b.at(at_b(e, o, r));
      db[static_cast<size_t>(at_b(e, o, r))] += d * a.at(at_a(e, r, i));
    });
    return {da, db};
  }
};

struct AdaptedResults {
  Results of;
  Array d_up_a, d_up_b, d_down_a, d_down_b;
};

// Runs all experts of a problem with adapters of up and down, or of one of the two. `given`: the
// initial value of the adapters' gradients, which the kernel adds to.
AdaptedResults run_adapted(const Problem& p, const Adapter* up, const Adapter* down, float scale,
                           bool saves, int threads, double given = 0) {
  AdaptedExpertsShape s;
  s.experts.tokens = p.n;
  s.experts.hidden = p.h;
  s.experts.inner = p.i;
  s.experts.experts = s.experts.all_experts = p.e;
  s.experts.chosen = p.k;
  s.experts.dtype = p.t;
  s.experts.pairs = saves;
  s.scale = scale;
  const auto made = [&](const Adapter* of, bool a) {
    if (of == nullptr) return Array();
    return Array::full((a ? of->a : of->b).shape(), given);
  };
  AdaptedResults r = {{Array({p.n, p.h}, p.t), Array({p.n, p.h}, p.t), Array::full({p.n, p.k}, 9),
                       Array(), Array(), Array::full({p.n, p.k, p.i, 2}, 9, p.t), Array()},
                      made(up, true),
                      made(up, false),
                      made(down, true),
                      made(down, false)};
  ExpertsOperands o;
  o.x = p.x.data();
  o.choice = p.choice.as<int32_t>();
  o.weights = p.weights.as<float>();
  o.up = p.up.data();
  o.down = p.down.data();
  o.pairs = r.of.pairs.data();
  o.y = r.of.y.data();
  const auto operands = [&](const Adapter* of, const Array& d_a, const Array& d_b) {
    ExpertAdapterOperands x;
    if (of == nullptr) return x;
    x.a = of->a.data();
    x.b = of->b.data();
    x.d_a = d_a.data();
    x.d_b = d_b.data();
    x.fresh_a = x.fresh_b = given == 0;
    return x;
  };
  if (up != nullptr) s.up_rank = up->rank;
  if (down != nullptr) s.down_rank = down->rank;
  const CpuBackend backend(read_cpu_features(), threads);
  const auto computes = [&] {
    const AdaptedExperts experts(s, backend);
    const HostBuffer workspace("workspace", experts.workspace_bytes() + kGuard);
    experts.run({.workspace = workspace.data(), .threads = threads}, o,
                operands(up, r.d_up_a, r.d_up_b), operands(down, r.d_down_a, r.d_down_b));
    for (int64_t b = 0; b < kGuard; ++b)
      ASSERT_EQ(workspace.data()[experts.workspace_bytes() + b], std::byte{0});
  };
  computes();
  s.experts.gradient = s.trained = true;
  o.dy = p.dy.data();
  o.dx = r.of.dx.data();
  o.d_weights = r.of.dw.as<float>();
  computes();
  return r;
}

void expect_adapted(const Problem& p, const Adapter* up, const Adapter* down, bool saves,
                    int threads, double bound, double given = 0) {
  constexpr double kScale = 0.75;
  Problem sum = p;
  if (up != nullptr) up->add_to(sum.up, kScale);
  if (down != nullptr) down->add_to(sum.down, kScale);
  const Reference expected(sum, 0, p.e);
  const AdaptedResults r = run_adapted(p, up, down, kScale, saves, threads, given);
  EXPECT_LT(distance(r.of.y, expected.y), bound);
  EXPECT_LT(distance(r.of.dx, expected.dx), bound);
  EXPECT_LT(distance(r.of.dw, expected.dw), bound);
  const auto check = [&](const Adapter* of, const Numbers& dw, const Array& d_a, const Array& d_b) {
    if (of == nullptr) return;
    auto [a, b] = of->gradients(dw, kScale);
    for (Numbers* d : {&a, &b})
      for (double& number : *d) number += given;
    EXPECT_LT(distance(d_a, a), bound);
    EXPECT_LT(distance(d_b, b), bound);
  };
  check(up, expected.dup, r.d_up_a, r.d_up_b);
  check(down, expected.ddown, r.d_down_a, r.d_down_b);
}

TEST(AdaptedExperts, AreTheFormula) {
  for (const DType t : {DType::kF32, DType::kBF16})
    for (const bool saves : {false, true})
      for (const int threads : {1, 2}) {
        const double bound = t == DType::kF32 ? 4e-6 : 3 * tolerance(t);
        const Problem p(90, 32, 16, 4, 2, spread(4, 2), t);
        const Adapter up(4, 32, 32, 3, 11, t), down(4, 32, 16, 5, 13, t);
        SCOPED_TRACE(testing::Message() << name_of(t) << ", " << saves << ", " << threads);
        expect_adapted(p, &up, &down, saves, threads, bound);
        expect_adapted(p, &up, nullptr, saves, threads, bound);
        expect_adapted(p, nullptr, &down, saves, threads, bound);
        expect_adapted(p, &up, &down, saves, threads, bound, 3);
      }
}

// An expert without tokens has zero gradients of its adapters, and a rank of one works.
TEST(AdaptedExperts, UnusedOnesHaveZeroGradients) {
  const Problem p(20, 16, 8, 4, 2, all_to({1, 3}));
  const Adapter up(4, 16, 16, 1, 11, DType::kF32), down(4, 16, 8, 1, 13, DType::kF32);
  expect_adapted(p, &up, &down, false, 1, 4e-6);
  const AdaptedResults r = run_adapted(p, &up, &down, 0.75f, false, 1);
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(r.d_up_a.at(i), 0);
    EXPECT_EQ(r.d_down_b.at(2 * 16 + i), 0);
  }
}

}  // namespace
}  // namespace tessera::kernels
