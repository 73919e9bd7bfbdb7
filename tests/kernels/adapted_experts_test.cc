// Experts with adapters against the formulas in double precision.
#include "kernels/adapted_experts.h"

#include "tests/kernels/array.h"
#include "tests/kernels/experts_reference.h"

namespace tessera::kernels {
namespace {

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

struct Results {
  Array y, dx, dw, pairs;
  Array d_up_a, d_up_b, d_down_a, d_down_b;
};

// Runs all experts of a problem with adapters of up and down, or of one of the two. `given`: the
// initial value of the adapters' gradients, which the kernel adds to.
Results run(const Problem& p, const Adapter* up, const Adapter* down, float scale, bool saves,
            int threads, double given = 0) {
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
  Results r = {Array({p.n, p.h}, p.t),
               Array({p.n, p.h}, p.t),
               Array::full({p.n, p.k}, 9),
               Array::full({p.n, p.k, p.i, 2}, 9, p.t),
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
  o.pairs = r.pairs.data();
  o.y = r.y.data();
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
  o.dx = r.dx.data();
  o.d_weights = r.dw.as<float>();
  computes();
  return r;
}

void expect_formula(const Problem& p, const Adapter* up, const Adapter* down, bool saves,
                    int threads, double bound, double given = 0) {
  constexpr double kScale = 0.75;
  Problem sum = p;
  if (up != nullptr) up->add_to(sum.up, kScale);
  if (down != nullptr) down->add_to(sum.down, kScale);
  const Reference expected(sum, 0, p.e);
  const Results r = run(p, up, down, kScale, saves, threads, given);
  EXPECT_LT(distance(r.y, expected.y), bound);
  EXPECT_LT(distance(r.dx, expected.dx), bound);
  EXPECT_LT(distance(r.dw, expected.dw), bound);
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
        // In 16 bits the sum and its gradient are rounded once each, next to the experts' own
        // rounding.
        const double bound = t == DType::kF32 ? 4e-6 : 3 * tolerance(t);
        const Problem p(90, 32, 16, 4, 2, spread(4, 2), t);
        const Adapter up(4, 32, 32, 3, 11, t), down(4, 32, 16, 5, 13, t);
        SCOPED_TRACE(testing::Message() << name_of(t) << ", " << saves << ", " << threads);
        expect_formula(p, &up, &down, saves, threads, bound);
        expect_formula(p, &up, nullptr, saves, threads, bound);
        expect_formula(p, nullptr, &down, saves, threads, bound);
        expect_formula(p, &up, &down, saves, threads, bound, 3);
      }
}

// An expert without tokens has zero gradients of its adapters, and a rank of one works.
TEST(AdaptedExperts, UnusedOnesHaveZeroGradients) {
  const Problem p(20, 16, 8, 4, 2, all_to({1, 3}));
  const Adapter up(4, 16, 16, 1, 11, DType::kF32), down(4, 16, 8, 1, 13, DType::kF32);
  expect_formula(p, &up, &down, false, 1, 4e-6);
  const Results r = run(p, &up, &down, 0.75f, false, 1);
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(r.d_up_a.at(i), 0);
    EXPECT_EQ(r.d_down_b.at(2 * 16 + i), 0);
  }
}

}  // namespace
}  // namespace tessera::kernels
