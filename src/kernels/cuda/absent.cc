// What the build takes without the CUDA toolkit. why_no_cuda() says so before any of it is called.
#include "base/error.h"
#include "kernels/cuda_attention.h"
#include "kernels/cuda_products.h"
#include "kernels/kernels.h"

namespace tessera::kernels {
namespace {

[[noreturn]] void absent() { CHECK(false, "this program was built without CUDA"); }

}  // namespace

const Kernels& cuda_kernels() { absent(); }

struct CudaBlas::Handle {};
CudaBlas::CudaBlas(bool tf32) : tf32_(tf32) { absent(); }
CudaBlas::~CudaBlas() = default;
int64_t CudaBlas::version() const { absent(); }

void fill_with_noise(Stream, void*, DType, int64_t) { absent(); }

struct CudaMatmul::Plan {};
CudaMatmul::CudaMatmul(const MatmulShape&, const CudaBlas&) { absent(); }
CudaMatmul::~CudaMatmul() = default;
CudaMatmul::CudaMatmul(CudaMatmul&&) noexcept = default;
CudaMatmul& CudaMatmul::operator=(CudaMatmul&&) noexcept = default;
int64_t CudaMatmul::workspace_bytes() const { absent(); }
void CudaMatmul::run(Stream, const void*, const void*, void*, void*) const { absent(); }
void CudaMatmul::run_fresh(Stream, const void*, const void*, void*, void*) const { absent(); }

struct CudaLinearCrossEntropy::Plan {};
CudaLinearCrossEntropy::CudaLinearCrossEntropy(const LinearCrossEntropyShape&, const CudaBlas&) {
  absent();
}
CudaLinearCrossEntropy::~CudaLinearCrossEntropy() = default;
int64_t CudaLinearCrossEntropy::workspace_bytes() const { absent(); }
void CudaLinearCrossEntropy::run(Stream, const LinearCrossEntropyOperands&, void*) const {
  absent();
}

struct CudaDnn::Handle {};
CudaDnn::CudaDnn() { absent(); }
CudaDnn::CudaDnn(std::string_view, int) { absent(); }
CudaDnn::~CudaDnn() = default;
int64_t CudaDnn::version() const { absent(); }

struct CudaAttention::Plan {};
CudaAttention::CudaAttention(const AttentionShape&, const AttentionChoosing&) { absent(); }
CudaAttention::~CudaAttention() = default;
bool CudaAttention::by_library() const { absent(); }
int64_t CudaAttention::workspace_bytes() const { absent(); }
bool CudaAttention::may_choose(const AttentionShape&) { absent(); }
void CudaAttention::run(Stream, const Attention&, void*) const { absent(); }
void CudaAttention::run(Stream, const AttentionGrad&, void*) const { absent(); }

}  // namespace tessera::kernels
