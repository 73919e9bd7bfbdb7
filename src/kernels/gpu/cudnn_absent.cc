// What the build takes where the headers of cuDNN's frontend are not: cuDNN is not installed, so to
// speak, and attention is our own.
#include "base/error.h"
#include "kernels/gpu/cudnn.h"

namespace tessera::kernels {
namespace {

[[noreturn]] void absent() {
  throw Error(
      "this program was built without cuDNN: its frontend's headers were not there "
      "(scripts/install_packages.sh test brings them)");
}

}  // namespace

struct CudaDnn::Handle {};
CudaDnn::CudaDnn() { absent(); }
CudaDnn::CudaDnn(std::string_view, int) { absent(); }
CudaDnn::~CudaDnn() = default;
int64_t CudaDnn::version() const { absent(); }

namespace gpu {

struct DnnAttention::Graph {};
DnnAttention::DnnAttention(const DnnShape&, const CudaDnn&) { absent(); }
DnnAttention::~DnnAttention() = default;
void DnnAttention::build(size_t) { absent(); }
int64_t DnnAttention::workspace_bytes(size_t) const { absent(); }
void DnnAttention::run(Stream, size_t, const DnnOperands&, void*) const { absent(); }

}  // namespace gpu
}  // namespace tessera::kernels
