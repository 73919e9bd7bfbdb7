// Definitions for builds without the headers of cuDNN's frontend: attention is then computed by our
// own kernels, as if cuDNN were not installed.
#include "base/error.h"
#include "kernels/gpu/cudnn.h"

namespace tessera::kernels {
namespace {

[[noreturn]] void absent() {
  throw Error(
      "this program was built without cuDNN: the headers of its frontend were not found "
      "(scripts/install_packages.sh test installs them)");
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
