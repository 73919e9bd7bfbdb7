// Compares cuDNN's attention plans with our own kernels before they are timed. Both run on the same
// random operands; outputs are first filled with NaN, so elements that a plan does not write are
// detected. A plan must agree within a few ulps per row and in the mean, and must reproduce its own
// bits. Then all candidates are timed as graphs of ten runs, so that launch time is negligible.
#include "kernels/gpu/attention_trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "kernels/gpu/noise.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kMeasuredRuns = 10;        // per graph, so that launch time is negligible
constexpr int64_t kLeastAlignment = 64;  // values in an arena may have no larger alignment

double number_at(DType type, const std::byte* data, int64_t i) {
  const auto read = [&](auto x) {
    std::memcpy(&x, data + 2 * i, sizeof(x));
    return static_cast<double>(static_cast<float>(x));
  };
  return type == DType::kBF16 ? read(BF16()) : read(F16());
}

// Returns a message for the first log-sum-exp that differs too much; empty if there is none.
std::string lse_difference(std::span<const std::byte> got, std::span<const std::byte> want) {
  for (size_t i = 0; i < want.size(); i += sizeof(float)) {
    float x, y;
    std::memcpy(&x, got.data() + i, sizeof(x));
    std::memcpy(&y, want.data() + i, sizeof(y));
    if (!(std::abs(x - y) <= kLseBound * (1 + std::abs(y))))
      return fmt::format("log-sum-exp {} is {}, expected {}", i / sizeof(float), x, y);
  }
  return "";
}

}  // namespace

std::string difference(DType type, const RowKinds& kinds, std::span<const std::byte> got,
                       std::span<const std::byte> want) {
  const double ulp = type == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  const auto rows = std::ssize(want) / (2 * kinds.d);
  // The squared difference and the squared length by row, and their sums by kind of row.
  std::vector<double> apart(rows), length(rows);
  const auto kind = [&](int64_t row) {
    return std::max<int64_t>(0, row % kinds.slots - kinds.queries + 1);
  };
  const size_t count = kinds.slots - kinds.queries + 1;
  std::vector<double> all_apart(count), all_length(count), rows_of(count);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = r, k = kind(r);
    for (int64_t n = r * kinds.d; n < (r + 1) * kinds.d; ++n) {
      const double x = number_at(type, got.data(), n), y = number_at(type, want.data(), n);
      apart[i] += (x - y) * (x - y);
      length[i] += y * y;
    }
    all_apart[k] += apart[i];
    all_length[k] += length[i];
    rows_of[k] += 1;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = r, k = kind(r);
    const double usual = std::sqrt(all_length[k] / rows_of[k]);
    // The tolerance is relative to the length of the row plus a share of the usual length, because
    // a row whose exact gradient is 0 contains only rounding errors.
    const double bound = kRowUlps * ulp * (std::sqrt(length[i]) + kUsualShare * usual);
    if (!(std::sqrt(apart[i]) <= bound))
      return fmt::format("row {} differs by {:.2g} (2-norm), and its own norm is {:.2g}", r,
                         std::sqrt(apart[i]), std::sqrt(length[i]));
  }
  for (size_t k = 0; k < count; ++k)
    if (!(std::sqrt(all_apart[k]) <= kWholeUlps * ulp * std::sqrt(all_length[k])))
      return fmt::format(
          "the rows differ by {:.2g} in total (2-norm), and their own norm is {:.2g}",
          std::sqrt(all_apart[k]), std::sqrt(all_length[k]));
  return "";
}

AttentionTrial::AttentionTrial(const AttentionShape& shape) : shape_(shape) {
  const AttentionShape& z = shape_;
  const int64_t heads = z.kv * z.g, slots = z.g + (z.apart ? 0 : 2);
  // Scores have a standard deviation of 1.5, so that weights are neither uniform nor dominated by
  // one key.
  const float factor = 1.5f / (z.scale * std::sqrt(static_cast<float>(z.d)));
  AttentionArgs& a = forward_;
  a.qkv = draw("queries", {z.b, z.t, z.kv, slots, z.d}, z.g, factor);
  if (z.apart) a.kv = draw("keys", {z.b, z.s, z.kv, 2, z.d}, 0, 1);
  a.out = take("output", z.dtype, {z.b, z.t, heads, z.d});
  a.lse = take("sums", DType::kF32, {z.b, heads, z.t});
  a.scale = z.scale;
  a.scope.causal = z.causal;
  if (z.documents) a.scope.documents = draw_documents();
  if (z.padding) a.scope.ids = draw_padding();
  if (z.gradient) {
    AttentionGradArgs& g = gradient_;
    g.qkv = a.qkv;
    g.kv = a.kv;
    g.out = a.out;
    g.lse = a.lse;
    g.scale = a.scale;
    g.scope = a.scope;
    launch(Gpu(), {stream_.get()}, a);
    g.d_out = draw("gradient", a.out.shape, 0, 1);
    if (z.padding) clear_last(g.d_out);  // the queries of the last sample attend to no key
    g.d_qkv = take("gradient of queries", z.dtype, a.qkv.shape);
    if (z.apart) g.d_kv = take("gradient of keys", z.dtype, a.kv.shape);
    require_workspace(kernels::workspace_bytes(Gpu(), g, 1));
  }
  poison(stream_.get());
  run_own(stream_.get());
  own_ = written(stream_.get());
}

TensorView AttentionTrial::take(const std::string& name, DType type, Shape shape) {
  const int64_t bytes = shape.elements() * size_of(type);
  const auto& buffer =
      memory_.emplace_back("measuring attention: " + name, bytes + kLeastAlignment);
  return {buffer.data() + kLeastAlignment, type, std::move(shape)};
}

// Returns an operand that is filled with noise; the first `queries` slots of each group are
// multiplied by `factor`.
TensorView AttentionTrial::draw(const std::string& name, Shape shape, int64_t queries,
                                float factor) {
  TensorView v = take(name, shape_.dtype, std::move(shape));
  std::vector<uint16_t> bits(v.elements());
  const int64_t slots = v.shape[3], d = shape_.d;
  Noise next;
  for (int64_t i = 0; i < std::ssize(bits); ++i) {
    const int64_t slot = i / d % slots;
    const float x = next() * (slot < queries ? factor : 1.0f);
    bits[i] = shape_.dtype == DType::kBF16 ? BF16(x).bits : F16(x).bits;
  }
  copy_in_stream(stream_.get(), v.data, bits.data(), v.bytes());
  synchronise(stream_.get());
  return v;
}

TensorView AttentionTrial::send_labels(const std::string& name,
                                       const std::vector<int32_t>& labels) {
  TensorView v = take(name, DType::kI32, {shape_.b, shape_.s});
  copy_in_stream(stream_.get(), v.data, labels.data(), v.bytes());
  synchronise(stream_.get());
  return v;
}

// Generates labels of documents with lengths of one token to a third of a row.
TensorView AttentionTrial::draw_documents() {
  std::vector<int32_t> labels(shape_.b * shape_.s);
  Noise next;
  const auto longest = static_cast<float>(std::max<int64_t>(1, shape_.s / 3));
  int32_t label = 0;
  int64_t left = 0;
  for (int32_t& l : labels) {
    if (left-- <= 0) {
      ++label;
      left = static_cast<int64_t>(std::min(std::abs(next()) * 0.5f, 1.0f) * longest);
    }
    l = label;
  }
  return send_labels("documents", labels);
}

// Generates labels of samples of random length; the last sample is empty.
TensorView AttentionTrial::draw_padding() {
  std::vector<int32_t> ids(shape_.b * shape_.s);
  Noise next;
  for (int64_t b = 0; b + 1 < shape_.b; ++b) {
    const float share = std::min(std::abs(next()) * 0.5f, 1.0f);
    const auto length = 1 + static_cast<int64_t>(share * static_cast<float>(shape_.s - 1));
    const auto row = ids.begin() + b * shape_.s;
    std::fill(row, row + length, 7);
  }
  return send_labels("padding", ids);
}

// Zeroes the last sample of `v`.
void AttentionTrial::clear_last(const TensorView& v) const {
  const int64_t bytes = v.bytes() / shape_.b;
  fill_in_stream(stream_.get(), v.as<std::byte>() + v.bytes() - bytes, 0, bytes);
}

void AttentionTrial::require_workspace(int64_t bytes) {
  if (bytes > workspace_.bytes()) {
    workspace_ = {};
    workspace_ = DeviceBuffer("measuring attention: workspace", bytes);
  }
}

void AttentionTrial::run_own(Stream s) const {
  if (shape_.gradient)
    launch(Gpu(), {s, workspace_.data()}, gradient_);
  else
    launch(Gpu(), {s}, forward_);
}

void AttentionTrial::run_dnn(Stream s, const DnnRuns& runs, size_t plan) const {
  if (shape_.gradient)
    runs.run(s, plan, gradient_, workspace_.data());
  else
    runs.run(s, plan, forward_, workspace_.data());
}

// Fills the outputs with NaN, so that elements that a plan does not write are detected.
void AttentionTrial::poison(Stream s) const {
  const auto fill = [&](const TensorView& v) {
    if (v) fill_in_stream(s, v.data, 0xff, v.bytes());
  };
  if (shape_.gradient) {
    fill(gradient_.d_qkv);
    fill(gradient_.d_kv);
  } else {
    fill(forward_.out);
    fill(forward_.lse);
  }
}

std::vector<std::vector<std::byte>> AttentionTrial::written(Stream s) const {
  std::vector<std::vector<std::byte>> all;
  const auto fetch = [&](const TensorView& v) {
    if (!v) return;
    auto& bytes = all.emplace_back(v.bytes());
    copy_in_stream(s, bytes.data(), v.data, v.bytes());
  };
  if (shape_.gradient) {
    fetch(gradient_.d_qkv);
    fetch(gradient_.d_kv);
  } else {
    fetch(forward_.out);
    fetch(forward_.lse);
  }
  synchronise(s);
  return all;
}

std::string AttentionTrial::compare(const std::vector<std::vector<std::byte>>& got) const {
  const AttentionShape& z = shape_;
  if (!z.gradient) {
    const std::string why = difference(z.dtype, {z.d, 1, 1}, got[0], own_[0]);
    return why.empty() ? lse_difference(got[1], own_[1]) : "output: " + why;
  }
  const RowKinds queries = {z.d, z.apart ? z.g : z.g + 2, z.g};
  if (const std::string why = difference(z.dtype, queries, got[0], own_[0]); !why.empty())
    return "gradient: " + why;
  if (!z.apart) return "";
  const std::string why = difference(z.dtype, {z.d, 2, 1}, got[1], own_[1]);
  return why.empty() ? "" : "gradient of keys: " + why;
}

std::string AttentionTrial::fault(const DnnRuns& runs, size_t plan) {
  require_workspace(runs.dnn->workspace_bytes(plan));
  const Stream s = stream_.get();
  std::vector<std::vector<std::byte>> first;
  // The first run is compared with our kernels, the second bit by bit with the first.
  for (const bool again : {false, true}) {
    poison(s);
    run_dnn(s, runs, plan);
    std::vector<std::vector<std::byte>> got = written(s);
    if (again) return got == first ? "" : kOtherBits;
    if (const std::string why = compare(got); !why.empty()) return why;
    first = std::move(got);
  }
  return "";
}

FastestGemm AttentionTrial::fastest(const DnnRuns* runs, const std::vector<size_t>& plans,
                                    const std::function<double()>& now_s) {
  const Stream s = stream_.get();
  std::vector<GpuGraph> graphs(1 + plans.size());
  for (size_t i = 0; i < graphs.size(); ++i) {
    graphs[i].begin(s);
    try {
      for (int n = 0; n < kMeasuredRuns; ++n) i == 0 ? run_own(s) : run_dnn(s, *runs, plans[i - 1]);
      graphs[i].end(s);
    } catch (const Error&) {
      graphs[i].give_up();
      if (i == 0) throw;
    }
  }
  return fastest_gemm(graphs.size(), [&](size_t i) {
    if (!graphs[i].ready()) return std::numeric_limits<double>::quiet_NaN();
    synchronise(s);
    const double began = now_s();
    graphs[i].launch(s);
    synchronise(s);
    return (now_s() - began) / kMeasuredRuns;
  });
}

}  // namespace tessera::kernels::gpu
