// Our kernels against PyTorch's float64 (tests/golden/README.md), in float32. Bounds are norm-wise
// and a small multiple of what rounding every input once would cost.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/gelu.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/update.h"

namespace tessera {
namespace {

constexpr double kBound = 1e-6;

// A tensor that owns its bytes.
class Array {
 public:
  Array(DType dtype, const Shape& shape)
      : bytes_(static_cast<size_t>(shape.elements() * size_of(dtype))),
        view_{bytes_.data(), dtype, shape} {}
  Array(Array&&) = default;

  const TensorView& view() const { return view_; }
  float* data() const { return view_.f32(); }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

Array zeros(const Shape& shape) { return {DType::kF32, shape}; }

class Golden : public ::testing::Test {
 protected:
  Golden() : file_(Path(TESSERA_GOLDEN_FOLDER) / "ops.safetensors") {}

  Array get(const std::string& name) const {
    for (const checkpoint::SafetensorsEntry& e : file_.entries()) {
      if (e.name != name) continue;
      Array a(*e.dtype, e.shape);
      std::memcpy(a.view().data, file_.bytes(e).data(), file_.bytes(e).size());
      return a;
    }
    throw Error("ops.safetensors has no {}", name);
  }
  double number(const std::string& name) const { return std::stod(file_.metadata().at(name)); }

  void expect_close(const Array& got, const std::string& name, double bound = kBound) const {
    const Array want = get(name);
    ASSERT_EQ(got.view().shape.elements(), want.view().shape.elements()) << name;
    double difference = 0, size = 0;
    for (int64_t i = 0; i < want.view().elements(); ++i) {
      const double w = want.data()[i], d = got.data()[i] - w;
      difference += d * d;
      size += w * w;
    }
    EXPECT_LE(std::sqrt(difference), bound * std::sqrt(size)) << name;
    EXPECT_GT(size, 0) << name;
  }

 private:
  checkpoint::SafetensorsFile file_;
};

std::vector<std::byte> workspace(int64_t bytes) {
  return std::vector<std::byte>(static_cast<size_t>(bytes + 64));
}
void* aligned(std::vector<std::byte>& w) {
  const auto at = reinterpret_cast<uintptr_t>(w.data());
  return w.data() + (64 - at % 64) % 64;
}

template <class Args>
void compute(const Args& args) {
  constexpr int kThreads = 2;
  auto w = workspace(workspace_bytes(kernels::Cpu(), args, kThreads));
  launch(kernels::Cpu(), {.workspace = aligned(w), .threads = kThreads}, args);
}

TEST_F(Golden, LayerNorm) {
  for (const std::string c : {"layer_norm", "layer_norm_offset"}) {
    const Array x = get(c + ".x"), gain = get(c + ".gain"), bias = get(c + ".bias");
    const Array dy = get(c + ".dy");
    const int64_t n = x.view().shape[0], d = x.view().shape[1];
    const Array y = zeros({n, d}), stats = zeros({n, 2}), dx = zeros({n, d});
    const Array dgain = zeros({d}), dbias = zeros({d});
    compute(kernels::NormArgs{x.view(),
                              {.epsilon = static_cast<float>(number(c + ".epsilon")),
                               .outputs = {{gain.view(), bias.view(), y.view()}},
                               .stats = stats.view()}});
    compute(kernels::NormGradArgs{.x = x.view(),
                                  .stats = stats.view(),
                                  .gain = gain.view(),
                                  .dy = dy.view(),
                                  .dx = dx.view(),
                                  .dgain = dgain.view(),
                                  .dbias = dbias.view()});
    // A mean of 100 over a deviation of 1 costs two digits of the statistics.
    const double bound = c == "layer_norm" ? kBound : 1e-5;
    expect_close(y, c + ".y", bound);
    expect_close(dx, c + ".dx", bound);
    expect_close(dgain, c + ".d_gain", bound);
    expect_close(dbias, c + ".d_bias", bound);
  }
}

TEST_F(Golden, Gelu) {
  for (const auto& [kind, c] :
       {std::pair<kernels::GeluKind, std::string>{kernels::GeluKind::kErf, "gelu_erf"},
        std::pair<kernels::GeluKind, std::string>{kernels::GeluKind::kTanh, "gelu_tanh"}}) {
    const Array x = get(c + ".x"), bias = get(c + ".bias"), dy = get(c + ".dy");
    const int64_t n = x.view().shape[0], d = x.view().shape[1];
    const Array y = zeros({n, d}), dx = zeros({n, d}), dbias = zeros({d});
    compute(kernels::GeluArgs{kind, x.view(), bias.view(), y.view()});
    compute(kernels::GeluGradArgs{kind, x.view(), bias.view(), dy.view(), dx.view(), dbias.view()});
    expect_close(y, c + ".y");
    expect_close(dx, c + ".dx");
    expect_close(dbias, c + ".d_bias");
  }
}

TEST_F(Golden, Rotary) {
  const Array qkv = get("rotary.qkv"), d_qkv = get("rotary.d_out");
  const Array positions = get("rotary.positions");
  kernels::Rotary r{.dims = static_cast<int64_t>(number("rotary.dims")),
                    .base = number("rotary.base")};
  compute(kernels::RotaryArgs{qkv.view(), positions.view(), r});
  expect_close(qkv, "rotary.out");
  r.inverse = true;
  compute(kernels::RotaryArgs{d_qkv.view(), positions.view(), r});
  expect_close(d_qkv, "rotary.d_qkv");
}

TEST_F(Golden, Attention) {
  for (const std::string c : {"attention", "attention_long", "attention_grouped"}) {
    const Array qkv = get(c + ".qkv"), d_out = get(c + ".d_out");
    const Shape& s = qkv.view().shape;  // [B, T, KV, G+2, D]
    const int64_t g = s[3] - 2, heads = s[2] * g;
    const Array out = zeros({s[0], s[1], heads, s[4]}), lse = zeros({s[0], heads, s[1]});
    const Array d_qkv = zeros(s);
    const auto scale = static_cast<float>(number(c + ".scale"));
    compute(kernels::AttentionArgs{
        .qkv = qkv.view(), .out = out.view(), .lse = lse.view(), .scale = scale});
    compute(kernels::AttentionGradArgs{.qkv = qkv.view(),
                                       .out = out.view(),
                                       .lse = lse.view(),
                                       .d_out = d_out.view(),
                                       .d_qkv = d_qkv.view(),
                                       .scale = scale});
    expect_close(out, c + ".out");
    expect_close(lse, c + ".lse");
    expect_close(d_qkv, c + ".d_qkv");
  }
}

TEST_F(Golden, CrossEntropy) {
  const Array logits = get("cross_entropy.logits"), labels = get("cross_entropy.labels");
  std::array<double, 2> report = {};
  compute(kernels::CrossEntropyArgs{
      .logits = logits.view(), .labels = labels.view(), .report = report.data(), .gradient = true});
  EXPECT_NEAR(report[0], get("cross_entropy.loss_sum").data()[0], 1e-6 * report[0]);
  EXPECT_EQ(report[1], number("cross_entropy.tokens"));
  expect_close(logits, "cross_entropy.d_logits");
}

// Both forms of the loss, with PyTorch's label smoothing and a z-loss.
TEST_F(Golden, LossTerms) {
  for (const std::string name : {"loss_terms_plain", "loss_terms_capped"}) {
    const auto value = [&](const char* key) {
      return static_cast<float>(number((name + "." + key).c_str()));
    };
    const kernels::LossExtras extras = {value("z_loss"), value("label_smoothing")};
    const Array logits = get((name + ".logits").c_str()), labels = get((name + ".labels").c_str());
    std::array<double, 3> report = {};
    compute(kernels::CrossEntropyArgs{.logits = logits.view(),
                                      .labels = labels.view(),
                                      .report = report.data(),
                                      .gradient = true,
                                      .soft_cap = value("soft_cap"),
                                      .extras = extras,
                                      .z_report = &report[2]});
    EXPECT_NEAR(report[0], get((name + ".loss_sum").c_str()).data()[0], 1e-6 * report[0]);
    EXPECT_NEAR(report[2], get((name + ".z_loss_sum").c_str()).data()[0], 1e-6 * report[2]);
    expect_close(logits, name + ".d_logits");
    const Array hidden = get((name + ".hidden").c_str()), weight = get((name + ".weight").c_str());
    const Array dx = zeros(hidden.view().shape), dweight = zeros(weight.view().shape);
    const kernels::LinearCrossEntropy op({.tokens = hidden.view().shape[0],
                                          .hidden = hidden.view().shape[1],
                                          .vocabulary = weight.view().shape[0],
                                          .soft_cap = value("soft_cap"),
                                          .extras = extras},
                                         read_cpu_features(), 2);
    auto w = workspace(op.workspace_bytes());
    op.run({.workspace = aligned(w)}, {.x = hidden.view().data,
                                       .weight = weight.view().data,
                                       .labels = labels.view().as<int32_t>(),
                                       .report = report.data(),
                                       .dx = dx.view().data,
                                       .dweight = dweight.data(),
                                       .fresh = true,
                                       .z_report = &report[2]});
    expect_close(dx, name + ".d_hidden");
    expect_close(dweight, name + ".d_weight");
  }
}

TEST_F(Golden, LinearCrossEntropy) {
  const Array hidden = get("cross_entropy.hidden"), weight = get("cross_entropy.weight");
  const Array labels = get("cross_entropy.labels");
  const Array dx = zeros(hidden.view().shape), dweight = zeros(weight.view().shape);
  std::array<double, 2> report = {};
  const kernels::LinearCrossEntropy op({.tokens = hidden.view().shape[0],
                                        .hidden = hidden.view().shape[1],
                                        .vocabulary = weight.view().shape[0]},
                                       read_cpu_features(), 2);
  auto w = workspace(op.workspace_bytes());
  op.run({.workspace = aligned(w)}, {.x = hidden.view().data,
                                     .weight = weight.view().data,
                                     .labels = labels.view().as<int32_t>(),
                                     .report = report.data(),
                                     .dx = dx.view().data,
                                     .dweight = dweight.data(),
                                     .fresh = true});
  EXPECT_NEAR(report[0], get("cross_entropy.loss_sum").data()[0], 1e-6 * report[0]);
  expect_close(dx, "cross_entropy.d_hidden");
  expect_close(dweight, "cross_entropy.d_weight");
}

TEST_F(Golden, AdamW) {
  for (const std::string c : {"adamw", "adamw_no_decay"}) {
    const Array weight = get(c + ".weight"), gradients = get(c + ".gradients");
    const int64_t steps = gradients.view().shape[0], n = gradients.view().shape[1];
    const Array m = zeros({n}), v = zeros({n});
    const std::array<kernels::UpdateRange, 1> ranges = {{{0, n, true}}};
    for (int64_t t = 1; t <= steps; ++t) {
      const TensorView gradient{gradients.data() + (t - 1) * n, DType::kF32, {n}};
      const std::array numbers = {number(c + ".learning_rate"), static_cast<double>(t), 1.0, 0.0};
      compute(kernels::UpdateArgs{.update = {.weights = weight.view(),
                                             .m = m.view(),
                                             .v = v.view(),
                                             .gradient = gradient,
                                             .weights_low = {},
                                             .ranges = ranges},
                                  .constants = {.beta1 = number(c + ".beta1"),
                                                .beta2 = number(c + ".beta2"),
                                                .epsilon = number(c + ".epsilon"),
                                                .weight_decay = number(c + ".weight_decay")},
                                  .numbers = {&numbers[0], &numbers[1], &numbers[2], &numbers[3]}});
    }
    expect_close(weight, c + ".new_weight");
    expect_close(m, c + ".moment1");
    expect_close(v, c + ".moment2");
  }
}

}  // namespace
}  // namespace tessera
