// In place of cuDNN: attention in plain loops over the shapes and strides that it is asked for.
#include "tests/cuda/emulator/cudnn.h"

#include <cmath>

#include "base/error.h"
#include "gpu_runtime.h"
#include "kernels/cpu/operand.h"
#include "kernels/gpu/cudnn.h"

cuda_emulator::DnnConduct cuda_emulator::dnn_conduct;

namespace tessera::kernels {

using cuda_emulator::dnn_conduct;

struct CudaDnn::Handle {};
CudaDnn::CudaDnn() {
  if (dnn_conduct.absent) throw Error("cuDNN 9 is not installed");
}
CudaDnn::CudaDnn(std::string_view, int) {}
CudaDnn::~CudaDnn() = default;
int64_t CudaDnn::version() const { return 1; }

namespace gpu {
namespace {

// One head of queries with its keys and values.
struct Head {
  const DnnShape& z;
  const DnnOperands& o;
  int64_t b, h;

  int64_t group() const { return h / (z.heads / z.kv_heads); }
  float read(const void* data, const HeadPlaces& p, int64_t head, int64_t row, int64_t k) const {
    return Source(data, z.dtype)[b * p.batch + head * p.head + row * p.row + k];
  }
  void write(void* data, const HeadPlaces& p, int64_t head, int64_t row, int64_t k, float x) const {
    Sink(data, z.dtype).set(b * p.batch + head * p.head + row * p.row + k, x);
  }
  float q(int64_t i, int64_t k) const { return read(o.q, z.q, h, i, k); }
  float key(int64_t j, int64_t k) const { return read(o.k, z.k, group(), j, k); }
  float value(int64_t j, int64_t k) const { return read(o.v, z.v, group(), j, k); }
  float d_out(int64_t i, int64_t k) const { return read(o.d_out, z.out, h, i, k); }
  float& stats(int64_t i) const { return o.stats[b * z.stats_batch + h * z.stats_head + i]; }

  bool sees(int64_t i, int64_t j) const {
    if (z.causal && j > i) return false;
    return !(dnn_conduct.wrong && i == z.queries - 1 && j == last_seen(i));
  }
  int64_t last_seen(int64_t i) const {
    int64_t j = z.causal ? i : z.keys - 1;
    while (j > 0 && hides(i, j)) --j;
    return j;
  }
  bool hides(int64_t i, int64_t j) const {
    const int32_t* const label = o.labels + b * z.label_batch;
    if (z.labels == DnnLabels::kSame) return label[i] != label[j];
    return z.labels == DnnLabels::kNotZero && label[j] == 0;
  }
  float score(int64_t i, int64_t j) const {
    float sum = 0;
    for (int64_t k = 0; k < z.d; ++k) sum += q(i, k) * key(j, k);
    return hides(i, j) ? -1e30f : sum * z.scale;
  }

  void forward(float noise) const {
    for (int64_t i = 0; i < z.queries; ++i) {
      std::vector<float> p(static_cast<size_t>(z.keys), -INFINITY), out(static_cast<size_t>(z.d));
      float most = -INFINITY, total = 0;
      for (int64_t j = 0; j < z.keys; ++j)
        if (sees(i, j)) most = std::max(most, p[static_cast<size_t>(j)] = score(i, j));
      for (float& x : p) total += x = std::exp(x - most);
      for (int64_t j = 0; j < z.keys; ++j)
        for (int64_t k = 0; k < z.d; ++k)
          out[static_cast<size_t>(k)] += p[static_cast<size_t>(j)] / total * value(j, k);
      for (int64_t k = 0; k < z.d; ++k)
        write(o.out, z.out, h, i, k, out[static_cast<size_t>(k)] * (1 + noise));
      stats(i) = most + std::log(total);
    }
  }

  // Adds to dk and dv [keys, d] and writes dq; delta is of the workspace.
  void gradient(float* delta, std::vector<float>& dk, std::vector<float>& dv, float noise) const {
    for (int64_t i = 0; i < z.queries; ++i) {
      delta[i] = 0;
      for (int64_t k = 0; k < z.d; ++k) delta[i] += d_out(i, k) * read(o.out, z.out, h, i, k);
      std::vector<float> dq(static_cast<size_t>(z.d));
      for (int64_t j = 0; j < z.keys; ++j) {
        if (!sees(i, j)) continue;
        const float p = std::exp(score(i, j) - stats(i));
        float dp = 0;
        for (int64_t k = 0; k < z.d; ++k) dp += d_out(i, k) * value(j, k);
        const float ds = p * (dp - delta[i]) * z.scale;
        for (int64_t k = 0; k < z.d; ++k) {
          const auto at = static_cast<size_t>(j * z.d + k);
          dq[static_cast<size_t>(k)] += ds * key(j, k);
          dk[at] += ds * q(i, k);
          dv[at] += p * d_out(i, k);
        }
      }
      for (int64_t k = 0; k < z.d; ++k)
        write(o.dq, z.q, h, i, k, dq[static_cast<size_t>(k)] * (1 + noise));
    }
  }
};

void compute(const DnnShape& z, const DnnOperands& o, void* workspace) {
  const float noise = dnn_conduct.varies ? 0.004f * static_cast<float>(dnn_conduct.runs % 2) : 0;
  ++dnn_conduct.runs;
  for (int64_t b = 0; b < z.batch; ++b) {
    if (!z.gradient) {
      for (int64_t h = 0; h < z.heads; ++h) Head{z, o, b, h}.forward(noise);
      continue;
    }
    const int64_t shared = z.heads / z.kv_heads;
    for (int64_t group = 0; group < z.kv_heads; ++group) {
      std::vector<float> dk(static_cast<size_t>(z.keys * z.d)), dv = dk;
      for (int64_t h = group * shared; h < (group + 1) * shared; ++h)
        Head{z, o, b, h}.gradient(static_cast<float*>(workspace), dk, dv, noise);
      const Head head = {z, o, b, group * shared};
      for (int64_t j = 0; j < z.keys; ++j)
        for (int64_t k = 0; k < z.d; ++k) {
          head.write(o.dk, z.k, group, j, k, dk[static_cast<size_t>(j * z.d + k)]);
          head.write(o.dv, z.v, group, j, k, dv[static_cast<size_t>(j * z.d + k)]);
        }
    }
  }
}

}  // namespace

struct DnnAttention::Graph {};
DnnAttention::DnnAttention(const DnnShape& shape, const CudaDnn&)
    : shape_(shape), plans_({"plain", "plain_too"}) {
  if (dnn_conduct.refuses) throw Error("cuDNN cannot take this shape of attention");
  // As cuDNN has it, statistics are dense.
  CHECK(shape.stats_head == shape.queries && shape.stats_batch == shape.heads * shape.queries,
        "statistics with gaps");
}
DnnAttention::~DnnAttention() = default;
void DnnAttention::build(size_t) {}
int64_t DnnAttention::workspace_bytes(size_t) const {
  if (!shape_.gradient) return 0;
  return std::max(shape_.queries * static_cast<int64_t>(sizeof(float)),
                  shape_.batch * shape_.heads * dnn_conduct.workspace_of_head);
}
void DnnAttention::run(Stream s, size_t, const DnnOperands& o, void* workspace) const {
  if (dnn_conduct.breaks) throw Error("cuDNN cannot run plain");
  const DnnShape z = shape_;
  const gpuError_t code =
      cuda_emulator::enqueue(static_cast<gpuStream_t>(s.handle), [=] { compute(z, o, workspace); });
  CHECK(code == gpuSuccess, "attention outside of the capture");
}

}  // namespace gpu
}  // namespace tessera::kernels
