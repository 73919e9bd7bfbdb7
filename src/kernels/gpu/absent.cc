// Definitions for builds without CUDA. why_no_gpu() reports the missing support before any of them
// is called.
#include "base/error.h"
#include "kernels/gpu_attention.h"
#include "kernels/gpu_experts.h"
#include "kernels/gpu_products.h"
#include "kernels/kernels.h"

namespace tessera::kernels {
namespace {

[[noreturn]] void absent() { CHECK(false, "this program was built without CUDA"); }

}  // namespace

const KernelTable& gpu_kernels() { absent(); }

struct GpuBlas::Handle {};
GpuBlas::GpuBlas(bool tf32) : tf32_(tf32) { absent(); }
GpuBlas::~GpuBlas() = default;
int64_t GpuBlas::version() const { absent(); }

void fill_with_noise(Stream, void*, DType, int64_t) { absent(); }

struct GpuMatmul::Plan {};
GpuMatmul::GpuMatmul(const MatmulShape&, const GpuBlas&) { absent(); }
GpuMatmul::~GpuMatmul() = default;
GpuMatmul::GpuMatmul(GpuMatmul&&) noexcept = default;
GpuMatmul& GpuMatmul::operator=(GpuMatmul&&) noexcept = default;
int64_t GpuMatmul::workspace_bytes() const { absent(); }
void GpuMatmul::pack(const void*, void*) const { absent(); }
void GpuMatmul::run(const Launch&, const MatmulOperands&) const { absent(); }

struct GpuLinearCrossEntropy::Plan {};
GpuLinearCrossEntropy::GpuLinearCrossEntropy(const LinearCrossEntropyShape&, const GpuBlas&) {
  absent();
}
GpuLinearCrossEntropy::~GpuLinearCrossEntropy() = default;
int64_t GpuLinearCrossEntropy::workspace_bytes() const { absent(); }
void GpuLinearCrossEntropy::run(const Launch&, const LinearCrossEntropyOperands&) const {
  absent();
}

int64_t GpuExperts::workspace_bytes() const { absent(); }
void GpuExperts::run(const Launch&, const ExpertsOperands&) const { absent(); }

struct CudaDnn::Handle {};
CudaDnn::CudaDnn() { absent(); }
CudaDnn::CudaDnn(std::string_view, int) { absent(); }
CudaDnn::~CudaDnn() = default;
int64_t CudaDnn::version() const { absent(); }

struct GpuAttention::Plan {};
GpuAttention::GpuAttention(const AttentionShape&, const AttentionChoosing&) { absent(); }
GpuAttention::~GpuAttention() = default;
bool GpuAttention::by_library() const { absent(); }
int64_t GpuAttention::workspace_bytes() const { absent(); }
bool GpuAttention::may_choose(const AttentionShape&) { absent(); }
void GpuAttention::run(const Launch&, const AttentionArgs&) const { absent(); }
void GpuAttention::run(const Launch&, const AttentionGradArgs&) const { absent(); }

}  // namespace tessera::kernels
