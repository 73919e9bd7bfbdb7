// The mesh of ranks that a layout describes.
#include <numeric>

#include "compile/compile.h"
#include "model/hf_names.h"

namespace tessera {

// Without ZeRO every data rank still owns a part: of the gradient's norm and of what is saved.
Mesh mesh_of(const Layout& l, int64_t head_copies) {
  Mesh m;
  m[AxisKind::kPipeline] = l.pipeline;
  m[AxisKind::kShard] = l.zero > 0 && l.zero_group > 0 ? l.zero_group : l.data;
  m[AxisKind::kReplica] = l.data / m[AxisKind::kShard];
  m[AxisKind::kExpert] = l.expert;
  m[AxisKind::kContext] = l.context;
  m[AxisKind::kTensorKv] = head_copies > 1 ? l.tensor / head_copies : 1;
  m[AxisKind::kTensor] = l.tensor / m[AxisKind::kTensorKv];
  return m;
}

int64_t head_copies(const ModelConfig& m, const Layout& l) {
  return l.tensor / std::gcd(l.tensor, key_value_heads(m));
}

}  // namespace tessera
