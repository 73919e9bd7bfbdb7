// Runs every kernel of a training step by itself and reports its fastest time with the bytes that
// the op must move by definition, so that the ratio to the copy rate shows how far a kernel is from
// the limit of the memory. On a GPU several runs are recorded in one graph, since a launch takes
// longer than a small kernel.
#include "measure/kernel_rates.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "base/error.h"

namespace tessera::measure {
namespace {

using Work = std::function<void(Stream)>;

// A byte pattern that is an ordinary number in most types: 0.0115 in f32 and bf16.
constexpr int kFilling = 0x3c;

// Memory for a kernel's operands, on the device that is measured. It is freed with this object.
class Operands {
 public:
  explicit Operands(const kernels::Backend& device) : device_(device) {}

  TensorView numbers(DType type, Shape shape) {
    TensorView v = {space(shape.elements() * size_of(type)), type, std::move(shape)};
    const TensorView host = arenas_.back()->host(v);
    std::memset(host.data, kFilling, host.bytes());
    arenas_.back()->upload({}, host);
    return v;
  }
  template <class T>
  T* given(const std::vector<T>& values) {
    const int64_t bytes = values.size() * sizeof(T);
    const TensorView v = {space(bytes), DType::kU8, {bytes}};
    const TensorView host = arenas_.back()->host(v);
    std::memcpy(host.data, values.data(), bytes);
    arenas_.back()->upload({}, host);
    return static_cast<T*>(v.data);
  }
  TensorView integers(const std::vector<int32_t>& values, Shape shape) {
    return {given(values), DType::kI32, std::move(shape)};
  }
  void* space(int64_t bytes) {
    return arenas_.emplace_back(device_.arena("a kernel's operand", bytes + 64))->data();
  }

 private:
  const kernels::Backend& device_;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

class KernelBench {
 public:
  KernelBench(const kernels::Backend& device, const KernelSizes& sizes,
              const std::function<double()>& now_s, double seconds)
      : device_(device), z_(sizes), now_s_(now_s), seconds_(seconds) {}

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
  // Returns the bytes of `arrays` arrays with `columns` 16-bit numbers per row.
  double low_bytes(double arrays, int64_t columns) const {
    return arrays * 2 * static_cast<double>(rows() * columns);
  }

  void time(std::string name, DType type, double bytes, const Work& work, double flops = 0) {
    rates_.push_back(
        {std::move(name), type, bytes, flops, device_.best_seconds(work, now_s_, seconds_)});
  }

  // Times a kernel of the table, with a workspace of its own.
  template <class Args>
  void time(std::string name, DType type, double bytes, Operands& o, const Args& args,
            double flops = 0) {
    const kernels::Kernel<Args>& kernel = device_.table().template of<Args>();
    const int threads = device_.threads();
    void* const room = o.space(kernel.workspace_bytes(args, threads));
    time(
        std::move(name), type, bytes,
        [&](Stream s) {
          kernel.run({s, room, threads}, args);
        },
        flops);
  }

  void norms() {
    Operands o(device_);
    const Shape whole = {rows(), z_.hidden}, row = {z_.hidden};
    const TensorView x = o.numbers(kLow, whole), u = o.numbers(kLow, whole),
                     out = o.numbers(kLow, whole), y = o.numbers(kLow, whole),
                     gain = o.numbers(kLow, row), bias = o.numbers(kLow, row),
                     stats = o.numbers(kHigh, {rows(), 2}), dgain = o.numbers(kHigh, row),
                     dbias = o.numbers(kHigh, row);
    const kernels::Norm norm = {.outputs = {{gain, bias, y}}, .stats = stats};
    // Arrays that move: x is read and y written; with a sum, x and u are read, their sum and y
    // written; the gradient reads x and dy and writes dx. Gains and statistics are small.
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
    Operands o(device_);
    const Shape whole = {rows(), z_.hidden};
    const TensorView x = o.numbers(kLow, whole), u = o.numbers(kLow, whole),
                     y = o.numbers(kLow, whole), dbias = o.numbers(kHigh, {z_.hidden});
    time("sum", kLow, low_bytes(3, z_.hidden), o, kernels::SumArgs{{x, u}, {}, y});
    time("bias gradient", kLow, low_bytes(1, z_.hidden), o, kernels::BiasGradArgs{x, dbias});
  }

  void activations() {
    Operands o(device_);
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
    // Both halves of x are read. The gradient also reads dy and writes both halves.
    time("gated activation", kLow, low_bytes(3, wide()), o,
         kernels::GatedActivationArgs{kSilu, x, y});
    time("gated activation gradient", kLow, low_bytes(5, wide()), o,
         kernels::GatedActivationGradArgs{kSilu, x, dy, x});
  }

  void places() {
    Operands o(device_);
    const int64_t d = z_.hidden / z_.heads;
    const TensorView qkv = o.numbers(kLow, {z_.sequences, z_.length, z_.heads, 3, d});
    std::vector<int32_t> at(rows());
    for (auto row = at.begin(); row != at.end(); row += z_.length)
      std::iota(row, row + z_.length, 0);
    const TensorView positions = o.integers(at, {z_.sequences, z_.length});
    const kernels::Rotary r = {.dims = d / 2 * 2};
    // q and k are read and written.
    time("rotary", kLow, low_bytes(4, z_.heads * r.dims), o,
         kernels::RotaryArgs{qkv, positions, r});
    const TensorView x = o.numbers(kLow, {z_.sequences, z_.length, z_.hidden});
    std::vector<int64_t> numbers(z_.sequences);
    const TensorView samples = {o.given(numbers), DType::kI64, {z_.sequences}};
    const TensorView mask = o.numbers(DType::kU8, {rows() * z_.hidden});
    // x is read and written in place. The mask has a byte per element, half of a 16-bit number.
    time("dropout", kLow, low_bytes(2.5, z_.hidden), o,
         kernels::DropoutArgs{x, samples, {.probability = 0.1f, .key = 1}, x, {}, mask});
  }

  // Returns token ids with the frequencies of text (Zipf's law: the n-th most frequent token
  // appears 1 / n as often as the first), because the gradient of an embedding depends on how often
  // ids repeat. u is uniform, so V^u has a density proportional to 1 / n.
  std::vector<int32_t> words() const {
    std::vector<int32_t> ids(rows());
    uint32_t state = 12345;
    for (int32_t& id : ids) {
      // A linear congruential generator; its upper bits are used.
      state = state * 1664525u + 1013904223u;
      const double u = ((state >> 8) + 0.5) / (1 << 24);
      id = static_cast<int32_t>(std::pow(z_.vocabulary, u)) - 1;
    }
    return ids;
  }

  void tables() {
    Operands o(device_);
    const std::vector<int32_t> text = words();
    // The number of table rows that are read at least once; repeated rows come from the cache.
    const auto different = static_cast<double>(std::set(text.begin(), text.end()).size());
    const TensorView ids = o.integers(text, {rows()}),
                     table = o.numbers(kLow, {z_.vocabulary, z_.hidden}),
                     sums = o.numbers(kHigh, {z_.vocabulary, z_.hidden}),
                     y = o.numbers(kLow, {rows(), z_.hidden});
    const double row = 2 * static_cast<double>(z_.hidden);
    time("embedding", kLow, low_bytes(1, z_.hidden) + different * row, o,
         kernels::EmbeddingArgs{ids, table, y});
    // Sums are in f32 and are read and written: 8 bytes per element, 4 times those of a 16-bit row.
    time("embedding gradient", kLow, low_bytes(1, z_.hidden) + different * 4 * row, o,
         kernels::EmbeddingGradArgs{ids, y, sums});
  }

  void losses() {
    Operands o(device_);
    std::vector<int32_t> labels(z_.logit_rows);
    for (size_t i = 0; i < labels.size(); ++i)
      // 7919 is a prime, so that labels are spread over the vocabulary.
      labels[i] = static_cast<int32_t>(static_cast<int64_t>(7919 * i) % z_.vocabulary);
    const kernels::CrossEntropyArgs c = {.logits = o.numbers(kHigh, {z_.logit_rows, z_.vocabulary}),
                                         .labels = o.integers(labels, {z_.logit_rows}),
                                         .report = o.given(std::vector<double>(2)),
                                         .gradient = true};
    // The gradient replaces the logits.
    time("cross entropy", kHigh, 2 * static_cast<double>(c.logits.bytes()), o, c);
  }

  // The weights of a layer, with their f32 master weights, and the scalars of a step.
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
    Operands o(device_);
    const int64_t n = 12 * z_.hidden * z_.hidden;
    const Layer l = layer(o, n);
    for (const OptimizerKind kind : kOnePassOptimizers) {
      const OptimizerTraits& rule = traits_of(kind);
      const TensorView v = rule.moment2 ? l.v : TensorView();
      const kernels::Update u = {l.w, l.m, v, l.g, l.low, {&l.all, 1}};
      // Bytes per element: AdamW reads and writes three f32 values (weight and two moments), reads
      // the gradient and writes 16 bits; the others have one moment.
      time(std::string(rule.name), kHigh, static_cast<double>(n) * (rule.moment2 ? 30 : 22), o,
           kernels::UpdateArgs{kind, u, {.weight_decay = 0.1}, l.numbers});
      if (allows_8bit_moments(rule)) coded_update(o, kind, u, l);
    }
  }

  // The same with moments in 8 bits: per moment a byte, and a scale per 64, are read and written.
  void coded_update(Operands& o, OptimizerKind kind, kernels::Update u, const Layer& l) {
    const int64_t n = u.weights.elements(), blocks = (n + kMomentBlock - 1) / kMomentBlock;
    const auto codes = [&] { return o.numbers(DType::kU8, {n}); };
    u.m = codes();
    u.m_scales = o.numbers(kHigh, {blocks});
    if (u.v) {
      u.v = codes();
      u.v_scales = o.numbers(kHigh, {blocks});
    }
    const double moments = (u.v ? 2 : 1) * (2 + 8.0 / kMomentBlock);
    time(std::string(traits_of(kind).name) + " 8bit", kHigh,
         static_cast<double>(n) * (14 + moments), o,
         kernels::UpdateArgs{kind, u, {.weight_decay = 0.1}, l.numbers});
  }

  // Adafactor's three passes over a weight of the feed-forward layer.
  void factors() {
    Operands o(device_);
    const int64_t columns = z_.hidden, height = wide(), n = height * columns;
    const Layer l = layer(o, n);
    double* const sums = o.given(std::vector<double>(height + columns + 2, 1));
    const TensorView row_sums = {sums, DType::kF64, {height}},
                     column_sums = {sums + height, DType::kF64, {columns}};
    const auto* const scales = o.numbers(kHigh, {height + columns}).as<float>();
    const kernels::FactorRun all = {0, n, 0, columns};
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
    Operands o(device_);
    const int64_t n = 12 * z_.hidden * z_.hidden;
    const TensorView x = o.numbers(kHigh, {n}), y = o.numbers(kLow, {n});
    double* const sum = o.given(std::vector<double>(1));
    time("squares of the gradient", kHigh, 4 * static_cast<double>(n), o,
         kernels::SquaresArgs{x, sum});
    time("cast", kHigh, 6 * static_cast<double>(n), o, kernels::CastArgs{x, y});
  }

  // Causal attention: only the FLOPs of the visible half are counted.
  void attention(DType type, int64_t sequences) {
    Operands o(device_);
    const int64_t d = z_.hidden / z_.heads, t = z_.length;
    const Shape slots = {sequences, t, z_.heads, 3, d}, heads = {sequences, t, z_.heads, d};
    const TensorView qkv = o.numbers(type, slots), out = o.numbers(type, heads),
                     d_out = o.numbers(type, heads), d_qkv = o.numbers(type, slots),
                     lse = o.numbers(kHigh, {sequences, z_.heads, t});
    // One of the GEMMs of attention. The forward pass has 2 (scores, output); the backward pass has
    // 5, since it recomputes the scores.
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
    if (!device_.has_streams() || type != kLow) return;
    kernels::AttentionShape shape = {sequences, t, t, z_.heads, 1, d, type};
    shape.scale = forward.scale;
    by_library("attention by cuDNN", shape, forward, 2 * product);
    shape.gradient = true;
    by_library("attention gradient by cuDNN", shape, backward, 5 * product);
  }

  // Times cuDNN's attention if cuDNN is installed, and faster than our kernels with equal results.
  template <class Kernel>
  void by_library(const std::string& name, const kernels::AttentionShape& shape, const Kernel& a,
                  double flops) {
    if (!kernels::GpuAttention::may_choose(shape)) return;
    try {
      if (!dnn_) dnn_ = std::make_unique<kernels::CudaDnn>();
    } catch (const Error&) {
      return;
    }
    kernels::KernelChoices choices("here");
    const kernels::GpuAttention attention(shape, {dnn_.get(), &choices, now_s_, {}});
    if (!attention.by_library()) return;
    Operands o(device_);
    void* const room = o.space(attention.workspace_bytes());
    time(
        name, shape.dtype, 0,
        [&](Stream s) {
          attention.run({s, room}, a);
        },
        flops);
  }

  const kernels::Backend& device_;
  KernelSizes z_;
  const std::function<double()>& now_s_;
  double seconds_;
  std::vector<KernelRate> rates_;
  std::unique_ptr<kernels::CudaDnn> dnn_;
};

}  // namespace

std::vector<KernelRate> measure_kernels(const kernels::Backend& device, const KernelSizes& sizes,
                                        const std::function<double()>& now_s, double seconds) {
  return KernelBench(device, sizes, now_s, seconds).run();
}

double measure_copy(const kernels::Backend& device, int64_t bytes,
                    const std::function<double()>& now_s, double seconds) {
  Operands o(device);
  const TensorView from = o.numbers(DType::kU8, {bytes}), to = o.numbers(DType::kU8, {bytes});
  const auto& copy = device.table().of<kernels::CopyArgs>();
  const Work work = [&](Stream s) { copy.run({s}, {from, to}); };
  return 2 * static_cast<double>(bytes) / device.best_seconds(work, now_s, seconds);
}

}  // namespace tessera::measure
