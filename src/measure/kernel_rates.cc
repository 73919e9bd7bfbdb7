#include "measure/kernel_rates.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "kernels/gpu_attention.h"
#include "kernels/kernels.h"
#include "tensor/gpu.h"

namespace tessera {
namespace {

using Work = std::function<void(Stream)>;

constexpr int kRunsOfGraph = 10;

// A number as most types have it that no op makes zero or denormal: 0.0115 in f32 and bf16.
constexpr int kFilling = 0x3c;

// Memory of the device that a kernel is measured on, as long as this lives.
class Operands {
 public:
  explicit Operands(const PreparedKernels& l) : on_gpu_(l.on_gpu()) {}

  TensorView numbers(DType type, Shape shape) {
    TensorView v = {space(shape.elements() * size_of(type)), type, std::move(shape)};
    fill(v);
    return v;
  }
  template <class T>
  T* given(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void* const to = space(bytes);
    if (!on_gpu_)
      return static_cast<T*>(std::memcpy(to, values.data(), static_cast<size_t>(bytes)));
    const GpuStream s;
    copy_in_stream(s.get(), to, values.data(), bytes);
    synchronise(s.get());
    return static_cast<T*>(to);
  }
  TensorView integers(const std::vector<int32_t>& values, Shape shape) {
    return {given(values), DType::kI32, std::move(shape)};
  }
  void* space(int64_t bytes) {
    if (on_gpu_) return device_.emplace_back("a kernel's operand", bytes + 64).data();
    return host_.emplace_back("a kernel's operand", bytes + 64).data();
  }

 private:
  void fill(const TensorView& v) const {
    if (!on_gpu_) {
      std::memset(v.data, kFilling, static_cast<size_t>(v.bytes()));
      return;
    }
    const GpuStream s;
    fill_in_stream(s.get(), v.data, kFilling, v.bytes());
    synchronise(s.get());
  }

  bool on_gpu_;
  std::vector<Buffer> host_;
  std::vector<DeviceBuffer> device_;
};

double best_on_cpu(const Work& work, const std::function<double()>& now_s, double seconds) {
  work({});
  double best = 0;
  for (const double first = now_s();;) {
    const double began = now_s();
    work({});
    const double over = now_s();
    best = best == 0 ? over - began : std::min(best, over - began);
    if (over - first >= seconds) return best;
  }
}

double best_on_gpu(const Work& work, const std::function<double()>& now_s, double seconds) {
  const GpuStream stream;
  const Stream s = stream.get();
  work(s);  // its code is loaded
  GpuGraph graph;
  graph.begin(s);
  for (int i = 0; i < kRunsOfGraph; ++i) work(s);
  graph.end(s);
  synchronise(s);
  double best = 0;
  for (const double first = now_s();;) {
    const double began = now_s();
    graph.launch(s);
    synchronise(s);
    const double over = now_s(), one = (over - began) / kRunsOfGraph;
    best = best == 0 ? one : std::min(best, one);
    if (over - first >= seconds) return best;
  }
}

class KernelBench {
 public:
  KernelBench(const PreparedKernels& kernels, const KernelSizes& sizes,
              const std::function<double()>& now_s, double seconds)
      : kernels_(kernels), z_(sizes), now_s_(now_s), seconds_(seconds) {}

  std::vector<KernelRate> run() {
    norms();
    sums();
    activations();
    places();
    tables();
    losses();
    updates();
    factors();
    flat();
    attention(DType::kBF16, z_.sequences);
    attention(DType::kF32, std::max<int64_t>(1, z_.sequences / 16));
    return std::move(rates_);
  }

 private:
  static constexpr DType kLow = DType::kBF16, kHigh = DType::kF32;

  int64_t rows() const { return z_.sequences * z_.length; }
  int64_t wide() const { return 4 * z_.hidden; }
  // Arrays of `columns` numbers of 16 bits a row.
  double low_bytes(double arrays, int64_t columns) const {
    return arrays * 2 * static_cast<double>(rows() * columns);
  }

  void time(std::string name, DType type, double bytes, const Work& work, double flops = 0) {
    const double s = kernels_.on_gpu() ? best_on_gpu(work, now_s_, seconds_)
                                       : best_on_cpu(work, now_s_, seconds_);
    rates_.push_back({std::move(name), type, bytes, flops, s});
  }

  // Of a kernel of the table, with a workspace of its own.
  template <class Args>
  void time(std::string name, DType type, double bytes, Operands& o, const Args& args,
            double flops = 0) {
    const kernels::Kernel<Args>& kernel = kernels_.table().template of<Args>();
    const int threads = kernels_.threads();
    void* const room = o.space(kernel.workspace_bytes(args, threads));
    time(
        std::move(name), type, bytes,
        [&](Stream s) {
          kernel.run({s, room, threads}, args);
        },
        flops);
  }

  void norms() {
    Operands o(kernels_);
    const Shape whole = {rows(), z_.hidden}, row = {z_.hidden};
    const TensorView x = o.numbers(kLow, whole), u = o.numbers(kLow, whole),
                     out = o.numbers(kLow, whole), y = o.numbers(kLow, whole),
                     gain = o.numbers(kLow, row), bias = o.numbers(kLow, row),
                     stats = o.numbers(kHigh, {rows(), 2}), dgain = o.numbers(kHigh, row),
                     dbias = o.numbers(kHigh, row);
    const kernels::Norm norm = {.outputs = {{gain, bias, y}}, .stats = stats};
    time("norm", kLow, low_bytes(2, z_.hidden), o, kernels::NormArgs{x, norm});
    time("sum and norm", kLow, low_bytes(4, z_.hidden), o,
         kernels::SumNormArgs{{{x, u}, {bias}, out}, norm});
    time("norm gradient", kLow, low_bytes(3, z_.hidden), o,
         kernels::NormGradArgs{.x = x,
                               .stats = stats,
                               .gain = gain,
                               .dy = u,
                               .dx = out,
                               .dgain = dgain,
                               .dbias = dbias});
  }

  void sums() {
    Operands o(kernels_);
    const Shape whole = {rows(), z_.hidden};
    const TensorView x = o.numbers(kLow, whole), u = o.numbers(kLow, whole),
                     y = o.numbers(kLow, whole), dbias = o.numbers(kHigh, {z_.hidden});
    time("sum", kLow, low_bytes(3, z_.hidden), o, kernels::SumArgs{{x, u}, {}, y});
    time("bias gradient", kLow, low_bytes(1, z_.hidden), o, kernels::BiasGradArgs{x, dbias});
  }

  void activations() {
    Operands o(kernels_);
    const Shape whole = {rows(), wide()};
    const TensorView x = o.numbers(kLow, {rows(), wide(), 2}), y = o.numbers(kLow, whole),
                     dy = o.numbers(kLow, whole), bias = o.numbers(kLow, {wide()}),
                     dbias = o.numbers(kHigh, {wide()});
    const TensorView half = {x.data, kLow, whole};
    constexpr auto kTanh = kernels::GeluKind::kTanh;
    time("gelu", kLow, low_bytes(2, wide()), o, kernels::GeluArgs{kTanh, half, bias, y});
    time("gelu gradient", kLow, low_bytes(3, wide()), o,
         kernels::GeluGradArgs{kTanh, half, bias, dy, y, dbias});
    constexpr auto kSilu = kernels::GateKind::kSilu;
    time("gated activation", kLow, low_bytes(3, wide()), o,
         kernels::GatedActivationArgs{kSilu, x, y});
    time("gated activation gradient", kLow, low_bytes(5, wide()), o,
         kernels::GatedActivationGradArgs{kSilu, x, dy, x});
  }

  void places() {
    Operands o(kernels_);
    const int64_t d = z_.hidden / z_.heads;
    const TensorView qkv = o.numbers(kLow, {z_.sequences, z_.length, z_.heads, 3, d});
    std::vector<int32_t> at(static_cast<size_t>(rows()));
    for (size_t i = 0; i < at.size(); ++i)
      at[i] = static_cast<int32_t>(i % static_cast<size_t>(z_.length));
    const TensorView positions = o.integers(at, {z_.sequences, z_.length});
    const kernels::Rotary r = {.dims = d / 2 * 2};
    // q and k, read and written
    time("rotary", kLow, low_bytes(4, z_.heads * r.dims), o,
         kernels::RotaryArgs{qkv, positions, r});
    const TensorView x = o.numbers(kLow, {z_.sequences, z_.length, z_.hidden});
    std::vector<int64_t> numbers(static_cast<size_t>(z_.sequences));
    const TensorView samples = {o.given(numbers), DType::kI64, {z_.sequences}};
    const TensorView mask = o.numbers(DType::kU8, {rows() * z_.hidden});
    time("dropout", kLow, low_bytes(2.5, z_.hidden), o,
         kernels::DropoutArgs{x, samples, {.probability = 0.1f, .key = 1}, x, {}, mask});
  }

  // Words as texts have them: the n-th most frequent comes 1 / n as often as the first.
  std::vector<int32_t> words() const {
    std::vector<int32_t> ids(static_cast<size_t>(rows()));
    uint32_t state = 12345;
    for (int32_t& id : ids) {
      state = state * 1664525u + 1013904223u;
      const double u = (static_cast<double>(state >> 8) + 0.5) / (1 << 24);
      id = static_cast<int32_t>(std::pow(static_cast<double>(z_.vocabulary), u)) - 1;
    }
    return ids;
  }

  void tables() {
    Operands o(kernels_);
    const std::vector<int32_t> text = words();
    const auto different = static_cast<double>(std::set(text.begin(), text.end()).size());
    const TensorView ids = o.integers(text, {rows()}),
                     table = o.numbers(kLow, {z_.vocabulary, z_.hidden}),
                     sums = o.numbers(kHigh, {z_.vocabulary, z_.hidden}),
                     y = o.numbers(kLow, {rows(), z_.hidden});
    const double row = 2 * static_cast<double>(z_.hidden);
    time("embedding", kLow, low_bytes(1, z_.hidden) + different * row, o,
         kernels::EmbeddingArgs{ids, table, y});
    time("embedding gradient", kLow, low_bytes(1, z_.hidden) + different * 4 * row, o,
         kernels::EmbeddingGradArgs{ids, y, sums});
  }

  void losses() {
    Operands o(kernels_);
    std::vector<int32_t> labels(static_cast<size_t>(z_.logit_rows));
    for (size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<int32_t>(static_cast<int64_t>(7919 * i) % z_.vocabulary);
    const kernels::CrossEntropyArgs c = {.logits = o.numbers(kHigh, {z_.logit_rows, z_.vocabulary}),
                                         .labels = o.integers(labels, {z_.logit_rows}),
                                         .report = o.given(std::vector<double>(2)),
                                         .gradient = true};
    time("cross entropy", kHigh, 2 * static_cast<double>(c.logits.bytes()), o, c);
  }

  // The weights of a layer, with their masters in f32, and what a step says.
  struct Layer {
    TensorView w, m, v, g, low;
    kernels::UpdateRange all;
    kernels::UpdateNumbers numbers;
  };
  Layer layer(Operands& o, int64_t n) const {
    const double* const said = o.given(std::vector<double>{1e-4, 10, 0.5, 0});
    return {o.numbers(kHigh, {n}),
            o.numbers(kHigh, {n}),
            o.numbers(kHigh, {n}),
            o.numbers(kHigh, {n}),
            o.numbers(kLow, {n}),
            {0, n, true, 7, 0},
            {said, said + 1, said + 2, said + 3}};
  }

  void updates() {
    Operands o(kernels_);
    const int64_t n = 12 * z_.hidden * z_.hidden;
    const Layer l = layer(o, n);
    for (const auto& [name, rule] : {std::pair{"adamw", kernels::UpdateRule::kAdamW},
                                     std::pair{"lion", kernels::UpdateRule::kLion},
                                     std::pair{"sgd", kernels::UpdateRule::kSgd}}) {
      const bool adam = rule == kernels::UpdateRule::kAdamW;
      const kernels::Update u = {l.w, l.m, adam ? l.v : TensorView(), l.g, l.low, {&l.all, 1}};
      time(name, kHigh, static_cast<double>(n) * (adam ? 30 : 22), o,
           kernels::UpdateArgs{rule, u, {.weight_decay = 0.1}, l.numbers});
    }
  }

  // Adafactor's three sweeps over a weight of the feed-forward layer.
  void factors() {
    Operands o(kernels_);
    const int64_t columns = z_.hidden, height = wide(), n = height * columns;
    const Layer l = layer(o, n);
    double* const sums = o.given(std::vector<double>(static_cast<size_t>(height + columns + 2), 1));
    const TensorView row_sums = {sums, DType::kF64, {height}},
                     column_sums = {sums + height, DType::kF64, {columns}};
    const auto* const scales = o.numbers(kHigh, {height + columns}).as<float>();
    const kernels::FactorStretch all = {0, n, 0, columns};
    const kernels::FactorScales by = {columns, scales, scales + height};
    const auto each = static_cast<double>(n);
    time("adafactor sums", kHigh, 4 * each, o,
         kernels::FactorSumsArgs{l.g, all, l.numbers, 1e-30, row_sums, column_sums});
    double* const squares = sums + height + columns;
    time("adafactor squares", kHigh, 4 * each, o,
         kernels::UpdateSquaresArgs{l.g, all, l.numbers, by, squares});
    const kernels::Update u = {l.w, {}, {}, l.g, l.low, {&l.all, 1}};
    const kernels::FactorNorms norms = {squares + 1, squares, each, 1e-3, 1.0};
    time("adafactor", kHigh, 14 * each, o,
         kernels::AdafactorArgs{u, {.weight_decay = 0.1}, l.numbers, by, norms});
  }

  void flat() {
    Operands o(kernels_);
    const int64_t n = 12 * z_.hidden * z_.hidden;
    const TensorView x = o.numbers(kHigh, {n}), y = o.numbers(kLow, {n});
    double* const sum = o.given(std::vector<double>(1));
    time("squares of the gradient", kHigh, 4 * static_cast<double>(n), o,
         kernels::SquaresArgs{x, sum});
    time("cast", kHigh, 6 * static_cast<double>(n), o, kernels::CastArgs{x, y});
  }

  // Causal; of products those of the visible half.
  void attention(DType type, int64_t sequences) {
    Operands o(kernels_);
    const int64_t d = z_.hidden / z_.heads, t = z_.length;
    const Shape slots = {sequences, t, z_.heads, 3, d}, heads = {sequences, t, z_.heads, d};
    const TensorView qkv = o.numbers(type, slots), out = o.numbers(type, heads),
                     d_out = o.numbers(type, heads), d_qkv = o.numbers(type, slots),
                     lse = o.numbers(kHigh, {sequences, z_.heads, t});
    const double product = 2.0 * static_cast<double>(sequences * z_.heads * t * t * d) / 2;
    kernels::AttentionArgs forward;
    forward.qkv = qkv;
    forward.out = out;
    forward.lse = lse;
    kernels::AttentionGradArgs backward;
    backward.qkv = qkv;
    backward.out = out;
    backward.lse = lse;
    backward.d_out = d_out;
    backward.d_qkv = d_qkv;
    forward.scale = backward.scale = 1 / std::sqrt(static_cast<float>(d));
    time("attention", type, 0, o, forward, 2 * product);
    time("attention gradient", type, 0, o, backward, 5 * product);
    if (!kernels_.on_gpu() || type != kLow) return;
    kernels::AttentionShape shape = {sequences, t, t, z_.heads, 1, d, type};
    shape.scale = forward.scale;
    by_library("attention by cuDNN", shape, forward, 2 * product);
    shape.gradient = true;
    by_library("attention gradient by cuDNN", shape, backward, 5 * product);
  }

  // Where cuDNN is installed, computes the same and is faster.
  template <class Kernel>
  void by_library(const std::string& name, const kernels::AttentionShape& shape, const Kernel& a,
                  double flops) {
    if (!kernels::GpuAttention::may_choose(shape)) return;
    try {
      if (!dnn_) dnn_ = std::make_unique<kernels::CudaDnn>();
    } catch (const Error&) {
      return;
    }
    kernels::ProductChoices choices("here");
    const kernels::GpuAttention attention(shape, {dnn_.get(), &choices, now_s_, {}});
    if (!attention.by_library()) return;
    Operands o(kernels_);
    void* const room = o.space(attention.workspace_bytes());
    time(
        name, shape.dtype, 0,
        [&](Stream s) {
          attention.run({s, room}, a);
        },
        flops);
  }

  const PreparedKernels& kernels_;
  KernelSizes z_;
  const std::function<double()>& now_s_;
  double seconds_;
  std::vector<KernelRate> rates_;
  std::unique_ptr<kernels::CudaDnn> dnn_;
};

}  // namespace

std::vector<KernelRate> measure_kernels(const PreparedKernels& kernels, const KernelSizes& sizes,
                                        const std::function<double()>& now_s, double seconds) {
  return KernelBench(kernels, sizes, now_s, seconds).run();
}

double measure_copy(const PreparedKernels& kernels, int64_t bytes,
                    const std::function<double()>& now_s, double seconds) {
  Operands o(kernels);
  const TensorView from = o.numbers(DType::kU8, {bytes}), to = o.numbers(DType::kU8, {bytes});
  const auto& copy = kernels.table().of<kernels::CopyArgs>();
  const Work work = [&](Stream s) { copy.run({s}, {from, to}); };
  return 2 * static_cast<double>(bytes) /
         (kernels.on_gpu() ? best_on_gpu(work, now_s, seconds) : best_on_cpu(work, now_s, seconds));
}

}  // namespace tessera
