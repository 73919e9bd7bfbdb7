// The experts against the formulas in double precision.
#include "kernels/experts.h"

#include "tests/kernels/array.h"
#include "tests/kernels/experts_reference.h"

namespace tessera::kernels {
namespace {

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

}  // namespace
}  // namespace tessera::kernels
