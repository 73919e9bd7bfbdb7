#include "compile/compile.h"

namespace tessera {

// Without ZeRO every data rank still owns a part: of the gradient's norm and of what is saved.
Mesh mesh_of(const Layout& l) {
  Mesh m;
  m[AxisKind::kPipeline] = l.pipeline;
  m[AxisKind::kShard] = l.zero > 0 && l.zero_group > 0 ? l.zero_group : l.data;
  m[AxisKind::kReplica] = l.data / m[AxisKind::kShard];
  m[AxisKind::kExpert] = l.expert;
  m[AxisKind::kContext] = l.context;
  m[AxisKind::kTensor] = l.tensor;
  return m;
}

}  // namespace tessera
