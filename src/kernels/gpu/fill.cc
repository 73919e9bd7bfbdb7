// Zeros on a GPU.
#include "kernels/fill.h"

#include "tensor/gpu.h"

namespace tessera::kernels {

void launch(Gpu, const Launch& l, const ClearArgs& a) {
  fill_in_stream(l.stream, a.y.data, 0, a.y.bytes());
}

}  // namespace tessera::kernels
