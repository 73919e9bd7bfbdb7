// What a step does to state, on a CUDA device against the CPU: through the tables of kernels.
#include <cmath>

#include "ir/state.h"
#include "kernels/gpu/fp8.h"
#include "tests/cuda/device.h"

namespace tessera::testing {
namespace {

class CudaKernels : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    stream_ = std::make_unique<GpuStream>();
  }
  Stream stream() const { return stream_->get(); }
  static const kernels::KernelTable& cpu() { return kernels::cpu_kernels(); }
  static const kernels::KernelTable& gpu() { return kernels::gpu_kernels(); }

  void fill(Both& x, double scale, double shift = 0) {
    for (int64_t i = 0; i < x.host().elements(); ++i)
      x.set(i, shift + scale * std::sin(0.7 * static_cast<double>(i) + shift));
    x.send(stream());
  }

 private:
  std::unique_ptr<GpuStream> stream_;
};

// Products of operands in eight bits, in every order in which they can stand: codes are the CPU's
// to the last, so only sums differ.
TEST_F(CudaKernels, ProductsInEightBits) {
  using kernels::Fp8;
  constexpr int64_t kM = 80, kN = 48, kK = 112;
  runtime::PreparedKernels here(read_cpu_features(), 1);
  const auto there = gpu_prepared();
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        Both a(type, {kM * kK}), b(type, {kK * kN}), c(DType::kF32, {kM * kN});
        fill(a, 0.01), fill(b, 30.0, 0.2);
        const kernels::MatmulShape shape = {.m = kM,
                                            .n = kN,
                                            .k = kK,
                                            .transpose_a = ta,
                                            .transpose_b = tb,
                                            .a = type,
                                            .b = type,
                                            .fp8_a = Fp8::kE5M2,
                                            .fp8_b = Fp8::kE4M3};
        const kernels::Gemm &wanted = here.product(shape), &got = there->product(shape);
        Both room(DType::kI64, {got.workspace_bytes() / 8 + 1});
        const HostBuffer space("workspace", wanted.workspace_bytes());
        wanted.run({.workspace = space.data()}, {a.host().data, b.host().data, c.host().data});
        const kernels::Launch on_device = {stream(), room.device().data};
        got.run(on_device, {a.device().data, b.device().data, c.device().data});
        expect_close(c.fetch(stream()), c.here(), 1e-6, name_of(type).data());
        // One number that is not finite is not hidden.
        a.set(kM, std::numeric_limits<double>::infinity());
        a.send(stream());
        got.run(on_device, {a.device().data, b.device().data, c.device().data});
        for (const double x : c.fetch(stream())) ASSERT_TRUE(std::isnan(x));
      }
}

// A shape that cuBLASLt does not support is detected when the GEMM is made, on a device and here.
// The check needs no device: a death test forks, and a forked process cannot use its parent's.
TEST_F(CudaKernels, ProductsInEightBitsThatNoCardMakes) {
  using kernels::Fp8;
  const kernels::MatmulShape fits = {
      .m = 32, .n = 48, .k = 64, .fp8_a = Fp8::kE5M2, .fp8_b = Fp8::kE4M3};
  const auto expect_refused = [&](void (*change)(kernels::MatmulShape&), const char* why) {
    kernels::MatmulShape s = fits;
    change(s);
    EXPECT_DEATH(kernels::gpu::check_fp8_product(s), why);
  };
  EXPECT_GT(gpu_prepared()->product(fits).workspace_bytes(), 0);
  expect_refused([](kernels::MatmulShape& s) { s.m = 40; }, "an extent of 40");
  expect_refused([](kernels::MatmulShape& s) { s.n = 50; }, "an extent of 50");
  expect_refused([](kernels::MatmulShape& s) { s.k = 63; }, "an extent of 63");
  expect_refused([](kernels::MatmulShape& s) { s.fp8_b = Fp8::kE5M2; }, "E5M2 and E5M2");
  expect_refused([](kernels::MatmulShape& s) { s.fp8_b = Fp8::kNone; }, "codes and numbers");
  expect_refused([](kernels::MatmulShape& s) { s.lda = 96; }, "codes are dense");
}

// A part of a tensor in NF4, written to a part of the rows of another: the CPU's bits.
TEST_F(CudaKernels, Nf4) {
  constexpr int64_t kRows = 60, kBlocks = 9, kRowBlocks = 20, kWhole = 100 * kRowBlocks;
  const int64_t levels = nf4_levels(kWhole);
  Both codes(DType::kU8, {kRows, kBlocks, kNf4Block / 2});
  Both scales(DType::kU8, {kRows, kBlocks}), of_all(DType::kF32, {levels});
  for (int64_t i = 0; i < codes.host().elements(); ++i)
    codes.host().as<uint8_t>()[i] = static_cast<uint8_t>(i * 37 + i / 256);
  for (int64_t i = 0; i < kRows * kBlocks; ++i)
    scales.host().as<uint8_t>()[i] = static_cast<uint8_t>(i * 167);
  codes.send(stream()), scales.send(stream());
  fill(of_all, 0.1, 0.123);
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const kernels::PartColumns& part :
         {kernels::PartColumns{1, kRows, 0, kRows}, kernels::PartColumns{20, 5, 1, 3}}) {
      Both w(type, {part.groups * part.width, kBlocks * kNf4Block});
      fill(w, 1.0);
      const auto run = [&](const kernels::KernelTable& k, const kernels::Launch& l, auto side) {
        k.of<kernels::DequantizeNf4Args>().run(
            l, {side(codes), side(scales), side(of_all), side(w), part, 40, 11, kRowBlocks});
      };
      run(cpu(), {}, [](Both& x) { return x.host(); });
      run(gpu(), {stream()}, [](Both& x) { return x.device(); });
      EXPECT_EQ(w.fetch(stream()), w.here()) << name_of(type) << " groups of " << part.width;
    }
}

struct UpdateCase {
  OptimizerKind rule;
  DType weights, moments;
  bool low = false, stochastic = false, skip = false;
};

class CudaUpdates : public CudaKernels {
 protected:
  void expect_same(const UpdateCase& c) {
    constexpr int64_t kN = 5000;
    Both w(c.weights, {kN}), m(c.moments, {kN}), v(c.moments, {kN}), g(DType::kF32, {kN});
    Both low(DType::kBF16, {kN}), numbers(DType::kF64, {5});
    fill(w, 0.5), fill(m, 0.01), fill(v, 1e-4, 1e-3), fill(g, 3.0), fill(low, 0.0);
    for (const auto& [i, x] : {std::pair{0, 1e-2}, std::pair{1, 7.0}, std::pair{2, 0.25},
                               std::pair{3, c.skip ? 1.0 : 0.0}, std::pair{4, 0.3}})
      numbers.set(i, x);
    numbers.send(stream());
    // Starts that are not aligned, a gap, and more ranges than one launch takes.
    std::vector<kernels::UpdateRange> ranges = {{0, 1003, true, 11, 5}, {1100, 2048, false, 12, 0}};
    for (int64_t i = 0; i < 40; ++i)
      ranges.push_back({2048 + 50 * i, 2048 + 50 * i + 47, i % 2 == 0, 13, 50 * i});
    const auto update = [&](bool on_device) {
      const auto side = [&](Both& x) { return on_device ? x.device() : x.host(); };
      kernels::Update u;
      u.weights = side(w);
      u.m = side(m);
      if (traits_of(c.rule).moment2) u.v = side(v);
      u.gradient = side(g);
      if (c.low) u.weights_low = side(low);
      u.ranges = ranges;
      u.stochastic = c.stochastic;
      const kernels::UpdateConstants constants = {
          .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
      const auto* n = side(numbers).as<double>();
      const auto& kernel = (on_device ? gpu() : cpu()).of<kernels::UpdateArgs>();
      kernel.run({on_device ? stream() : Stream()},
                 {c.rule, u, constants, {n, n + 1, n + 2, n + 3, n + 4}});
    };
    update(false);
    update(true);
    // Where rounding is random, a sum that differs in its last bit may go to the other neighbor.
    const double bound = c.weights == DType::kF32 ? 1e-6 : 1e-4;
    expect_close(w.fetch(stream()), w.here(), bound, "weights");
    expect_close(m.fetch(stream()), m.here(), bound, "m");
    expect_close(v.fetch(stream()), v.here(), bound, "v");
    expect_close(low.fetch(stream()), low.here(), 1e-4, "weights_low");
  }
};

TEST_F(CudaUpdates, InF32WithLowWeights) {
  for (const OptimizerKind rule : kOnePassOptimizers)
    expect_same({rule, DType::kF32, DType::kF32, true});
}
TEST_F(CudaUpdates, RoundedStochastically) {
  for (const OptimizerKind rule : kOnePassOptimizers)
    expect_same({rule, DType::kBF16, DType::kBF16, false, true});
}
TEST_F(CudaUpdates, SkippedSteps) {
  expect_same({OptimizerKind::kAdamW, DType::kF32, DType::kF32, true, false, true});
}

TEST_F(CudaUpdates, WithMomentsIn8Bits) {
  constexpr int64_t kN = 5000, kBlocks = (kN + 63) / 64;
  // A gap, partial blocks, and more ranges than one launch takes.
  std::vector<kernels::UpdateRange> ranges = {{0, 1003, true, 11, 0}, {1088, 2048, false, 12, 64}};
  for (int64_t i = 0; i < 40; ++i)
    ranges.push_back({2048 + 64 * i, 2048 + 64 * i + 1 + i, i % 2 == 0, 13, 64 * i});
  for (const OptimizerKind rule : kOnePassOptimizers) {
    if (!allows_8bit_moments(traits_of(rule))) continue;
    for (const bool skip : {false, true}) {
      Both w(DType::kF32, {kN}), g(DType::kF32, {kN}), low(DType::kBF16, {kN});
      Both m(DType::kU8, {kN}), v(DType::kU8, {kN}), numbers(DType::kF64, {5});
      Both m_scales(DType::kF32, {kBlocks}), v_scales(DType::kF32, {kBlocks});
      fill(w, 0.5), fill(g, 3.0), fill(low, 0.0);
      for (Both* x : {&m, &v}) {
        for (int64_t i = 0; i < kN; ++i) x->set(i, static_cast<double>(i * 37 % 256));
        x->send(stream());
      }
      fill(m_scales, 0.01), fill(v_scales, 1e-4, 1e-3);
      for (const auto& [i, x] : {std::pair{0, 1e-2}, std::pair{1, 7.0}, std::pair{2, 0.25},
                                 std::pair{3, skip ? 1.0 : 0.0}, std::pair{4, 0.0}})
        numbers.set(i, x);
      numbers.send(stream());
      const auto update = [&](bool on_device) {
        const auto side = [&](Both& x) { return on_device ? x.device() : x.host(); };
        kernels::Update u = {.weights = side(w),
                             .m = side(m),
                             .gradient = side(g),
                             .weights_low = side(low),
                             .ranges = ranges,
                             .m_scales = side(m_scales)};
        if (traits_of(rule).moment2) u.v = side(v), u.v_scales = side(v_scales);
        const auto* n = side(numbers).as<double>();
        const auto& kernel = (on_device ? gpu() : cpu()).of<kernels::UpdateArgs>();
        kernel.run({on_device ? stream() : Stream()},
                   {rule,
                    u,
                    {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
                    {n, n + 1, n + 2, n + 3, n + 4}});
      };
      update(false);
      update(true);
      expect_close(w.fetch(stream()), w.here(), 1e-6, "weights");
      expect_close(low.fetch(stream()), low.here(), 1e-4, "weights_low");
      expect_close(m_scales.fetch(stream()), m_scales.here(), 1e-6, "m_scales");
      expect_close(v_scales.fetch(stream()), v_scales.here(), 1e-6, "v_scales");
      // A sum that differs in its last bit may have the neighboring code.
      for (Both* x : {&m, &v}) {
        const std::vector<double> there = x->fetch(stream()), here = x->here();
        int64_t differ = 0;
        for (size_t i = 0; i < here.size(); ++i)
          if (here[i] != there[i]) ++differ;
        EXPECT_LE(differ, 3) << traits_of(rule).name;
      }
    }
  }
}

class CudaMuon : public CudaKernels {
 protected:
  // The directions, the matrix divided by its norm, and the update, on both sides.
  void expect_same(DType weights, DType directions, bool stochastic) {
    constexpr int64_t kN = 5000, kFirst = 100, kElements = 6000;
    Both w(weights, {kN}), m(weights, {kN}), g(DType::kF32, {kN}), low(DType::kBF16, {kN});
    Both x(directions, {kElements}), y(directions, {kElements}), numbers(DType::kF64, {5});
    fill(w, 0.5), fill(m, 0.01), fill(g, 3.0), fill(low, 0.0), fill(x, 1.0), fill(y, 0.0);
    const double given[] = {1e-2, 7, 0.25, 0, 400};
    for (int64_t i = 0; i < 5; ++i) numbers.set(i, given[i]);
    numbers.send(stream());
    Both scores(DType::kF32, {2});  // of heads of 3,000 elements
    scores.set(0, 7);
    scores.set(1, 1.5);
    scores.send(stream());
    // Starts that are not aligned, a gap, and more ranges than one launch takes.
    std::vector<kernels::UpdateRange> ranges = {{0, 1003, true, 11, kFirst + 5}};
    for (int64_t i = 0; i < 40; ++i)
      ranges.push_back({2048 + 50 * i, 2048 + 50 * i + 47, i % 2 == 0, 11, 2000 + 50 * i});
    const auto run = [&](bool on_device) {
      const auto side = [&](Both& v) { return on_device ? v.device() : v.host(); };
      const kernels::KernelTable& k = on_device ? gpu() : cpu();
      const kernels::Launch l = {on_device ? stream() : Stream()};
      const auto* n = side(numbers).as<double>();
      k.of<kernels::DirectionArgs>().run(
          l, {side(g), side(m), ranges, n + 2, 0.95, !stochastic, side(x), kFirst});
      k.of<kernels::UnitNormArgs>().run(l, {side(x), n + 4, 1e-7, side(y)});
      kernels::MuonArgs a;
      a.update = {.weights = side(w), .m = side(m), .gradient = side(g), .ranges = ranges};
      if (!stochastic) a.update.weights_low = side(low);
      a.update.stochastic = stochastic;
      a.constants = {.beta1 = 0.95, .weight_decay = 0.1, .rate_multiplier = 0.5};
      a.numbers = {n, n + 1, n + 2, n + 3};
      a.directions = side(y);
      a.clip = {.scores = side(scores).as<float>(),
                .limit = 2,
                .rows = 30,
                .columns = 100,
                .count = 2,
                .ranges = {{0, 11, 0.5}, {20, 29, 1}}};
      a.first = kFirst;
      a.direction_scale = 3;
      k.of<kernels::MuonArgs>().run(l, a);
    };
    run(false);
    run(true);
    const double bound = weights == DType::kF32 && directions == DType::kF32 ? 1e-6 : 1e-3;
    expect_close(x.fetch(stream()), x.here(), bound, "directions");
    expect_close(y.fetch(stream()), y.here(), bound, "divided by the norm");
    expect_close(w.fetch(stream()), w.here(), bound, "weights");
    expect_close(m.fetch(stream()), m.here(), bound, "m");
    expect_close(low.fetch(stream()), low.here(), 1e-4, "weights_low");
  }
};

TEST_F(CudaMuon, InF32) { expect_same(DType::kF32, DType::kF32, false); }
TEST_F(CudaMuon, WithDirectionsInBf16) { expect_same(DType::kF32, DType::kBF16, false); }
TEST_F(CudaMuon, RoundedStochastically) { expect_same(DType::kBF16, DType::kBF16, true); }

TEST_F(CudaKernels, SquaresAndClip) {
  constexpr int64_t kN = 40'003;
  Both x(DType::kF32, {kN}), report(DType::kF64, {kReportSize}), step(DType::kF64, {kStepSize});
  fill(x, 2.0), fill(report, 0.0), fill(step, 0.0);
  report.set(kLossTokens, 123);
  report.set(kLossSum, 400);
  step.set(kLossScale, 8);
  report.send(stream());
  step.send(stream());
  const auto bytes_of = [&](const kernels::KernelTable& k) {
    return k.of<kernels::SquaresArgs>().workspace_bytes({x.host(), nullptr}, 1);
  };
  std::vector<std::byte> here(static_cast<size_t>(bytes_of(cpu())));
  const DeviceBuffer there("a workspace", bytes_of(gpu()));
  const auto run = [&](const kernels::KernelTable& k, const kernels::Launch& l, const TensorView& v,
                       double* r, const double* of_step) {
    const auto& squares = k.of<kernels::SquaresArgs>();
    squares.run(l, {v, r + kSquareSum});
    squares.run(l, {{v.as<float>() + 3, DType::kF32, {kN - 3}}, r + kSquareSum});
    k.of<kernels::ClipArgs>().run(
        l, {r + kLossTokens, r + kSquareSum, r + kLossSum, of_step + kLossScale,
            of_step + kPreviousSkipped, r + kGradNorm, r + kScale, r + kSkip, 0.1});
  };
  run(cpu(), {.workspace = here.data()}, x.host(), report.host().as<double>(),
      step.host().as<double>());
  run(gpu(), {stream(), there.data()}, x.device(), report.device().as<double>(),
      step.device().as<double>());
  const std::vector<double> got = report.fetch(stream()), want = report.here();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12 * std::abs(want[i]));
}

// Of whole weights, of runs that begin and end in a row, and of rows that no 16 bytes divide.
TEST_F(CudaKernels, SumsOfSquaresByRowAndColumn) {
  struct Case {
    int64_t rows, columns, first, last;  // elements [first, last) of the weight
  };
  for (const Case& c : {Case{70, 512, 0, 70 * 512}, Case{300, 24, 0, 300 * 24},
                        Case{40, 264, 500, 9'000}, Case{33, 37, 5, 33 * 37 - 2},
                        Case{3, 1000, 1001, 1999}, Case{5, 8, 8, 8}, Case{1, 600, 0, 600}}) {
    constexpr int64_t kBefore = 16;
    const int64_t n = c.last - c.first;
    Both g(DType::kF32, {kBefore + n}), rows(DType::kF64, {c.rows}),
        columns(DType::kF64, {c.columns}), numbers(DType::kF64, {2});
    fill(g, 2.0), fill(rows, 1.0), fill(columns, 3.0);
    numbers.set(0, 0.25);  // the scale
    numbers.set(1, 0);     // no skip
    for (Both* b : {&g, &rows, &columns, &numbers}) b->send(stream());
    const kernels::FactorRun run = {kBefore, kBefore + n, c.first, c.columns};
    const auto args = [&](bool here) {
      const auto side = [&](Both& b) { return here ? b.host() : b.device(); };
      const auto* said = side(numbers).as<double>();
      return kernels::FactorSumsArgs{side(g), run,        {nullptr, nullptr, said, said + 1},
                                     1e-3,    side(rows), side(columns)};
    };
    const auto& there = gpu().of<kernels::FactorSumsArgs>();
    const DeviceBuffer space("a workspace", there.workspace_bytes(args(false), 1));
    there.run({stream(), space.data()}, args(false));
    cpu().of<kernels::FactorSumsArgs>().run({}, args(true));
    const std::string what = fmt::format("{} x {}", c.rows, c.columns);
    testing::expect_close(rows.fetch(stream()), rows.here(), 1e-12, what);
    testing::expect_close(columns.fetch(stream()), columns.here(), 1e-12, what);
  }
}

TEST_F(CudaKernels, TheFirstThatIsNotFinite) {
  constexpr int64_t kN = 70'001;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const int64_t shift : {0, 1})
      for (const std::vector<int64_t>& bad :
           {std::vector<int64_t>{}, {0}, {kN - 1}, {40'003, 40'005, 60'000}, {16'384, 16'391}}) {
        Both x(type, {kN + shift}), first(DType::kI64, {1});
        fill(x, 2.0);
        for (const int64_t i : bad)
          x.set(shift + i, i % 2 == 0 ? NAN : -std::numeric_limits<double>::infinity());
        x.send(stream());
        const auto args = [&](const TensorView& v, const TensorView& to) {
          return kernels::FirstNonFiniteArgs{
              {v.as<std::byte>() + shift * size_of(type), type, {kN}}, to.as<int64_t>()};
        };
        const auto& search = gpu().of<kernels::FirstNonFiniteArgs>();
        const kernels::FirstNonFiniteArgs there = args(x.device(), first.device());
        const DeviceBuffer space("a workspace", search.workspace_bytes(there, 1));
        search.run({stream(), space.data()}, there);
        cpu().of<kernels::FirstNonFiniteArgs>().run({}, args(x.host(), first.host()));
        const double want = bad.empty() ? -1 : static_cast<double>(bad[0]);
        EXPECT_EQ(first.here()[0], want) << name_of(type);
        EXPECT_EQ(first.fetch(stream())[0], want) << name_of(type);
      }
}

// Of any alignment: copies, casts and bytes.
TEST_F(CudaKernels, CastsOfAnyLength) {
  for (const int64_t n : {1, 7, 8, 1000, 100'001})
    for (const auto& [from, to] :
         {std::pair{DType::kF32, DType::kBF16}, std::pair{DType::kBF16, DType::kF32},
          std::pair{DType::kF32, DType::kF16}, std::pair{DType::kF16, DType::kF32}}) {
      Both x(from, {n}), y(to, {n});
      fill(x, 3.0);
      cpu().of<kernels::CastArgs>().run({}, {x.host(), y.host()});
      gpu().of<kernels::CastArgs>().run({stream()}, {x.device(), y.device()});
      EXPECT_EQ(y.fetch(stream()), y.here()) << n;
    }
}

// Decoding reads keys that earlier calls wrote.
TEST_F(CudaKernels, CachedAttention) {
  const int64_t tokens = 3, context = 40, groups = 2, d = 16;
  Both qkv(DType::kF32, {2, tokens, groups, 4, d}), cache(DType::kF32, {2, context, 2, groups, d});
  Both out(DType::kF32, {2, tokens, 2 * groups, d}), start(DType::kI32, {2, tokens});
  fill(qkv, 1.0), fill(cache, 1.0, 0.3), fill(out, 0.0);
  // The two sequences are at different positions.
  for (int64_t t = 0; t < tokens; ++t) {
    start.set(t, static_cast<double>(33 + t));
    start.set(tokens + t, static_cast<double>(t));
  }
  start.send(stream());
  using Args = kernels::CachedAttentionArgs;
  const Args args = {.qkv = qkv.host(),
                     .cache = cache.host(),
                     .start = start.host().as<int32_t>(),
                     .out = out.host(),
                     .scale = 0.25f};
  const auto& kernel = cpu().of<Args>();
  std::vector<std::byte> here(static_cast<size_t>(kernel.workspace_bytes(args, 1)) + 64);
  const auto at = reinterpret_cast<uintptr_t>(here.data());
  kernel.run({.workspace = here.data() + (64 - at % 64) % 64}, args);
  gpu().of<Args>().run({stream()}, {.qkv = qkv.device(),
                                    .cache = cache.device(),
                                    .start = start.device().as<int32_t>(),
                                    .out = out.device(),
                                    .scale = 0.25f});
  expect_close(out.fetch(stream()), out.here(), 1e-6, "out");
  EXPECT_EQ(cache.fetch(stream()), cache.here());
}

// With windows, documents, groups of queries, and keys of their own.
TEST_F(CudaKernels, MaxScores) {
  const int64_t tokens = 75, groups = 2, d = 24;
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const bool separate : {false, true}) {
      Both qkv(type, {2, tokens, groups, separate ? 2 : 4, d}), kv(type, {2, tokens, groups, 2, d});
      Both most(DType::kF32, {groups}), documents(DType::kI32, {2, tokens});
      fill(qkv, 2.0), fill(kv, 2.0, 0.7), fill(most, 0.0);
      for (int64_t i = 0; i < 2 * tokens; ++i)
        documents.set(i, static_cast<double>(i % tokens / 40));
      most.set(1, 1e3);  // more than any score
      most.send(stream());
      documents.send(stream());
      using Args = kernels::MaxScoresArgs;
      const auto args = [&](bool on_device) {
        const auto side = [&](Both& v) { return on_device ? v.device() : v.host(); };
        Args a{side(qkv), side(most), 0.25f};
        if (separate) a.kv = side(kv);
        a.scope.window = 30;
        a.scope.documents = side(documents);
        return a;
      };
      const auto& kernel = cpu().of<Args>();
      std::vector<std::byte> here(static_cast<size_t>(kernel.workspace_bytes(args(false), 1)) + 64);
      const auto at = reinterpret_cast<uintptr_t>(here.data());
      kernel.run({.workspace = here.data() + (64 - at % 64) % 64}, args(false));
      gpu().of<Args>().run({stream()}, args(true));
      expect_close(most.fetch(stream()), most.here(), 1e-6, "most");
    }
  }
}

}  // namespace
}  // namespace tessera::testing
