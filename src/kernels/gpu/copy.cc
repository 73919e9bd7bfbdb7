// Copies of bytes on a GPU.
#include "kernels/copy.h"

namespace tessera::kernels {

void launch(Gpu, const Launch& l, const CopyArgs& a) {
  copy_in_stream(l.stream, a.to.data, a.from.data, a.to.bytes());
}

void launch(Gpu, const Launch& l, const CopyRowsArgs& a) { copy_rows_in_stream(l.stream, a); }

}  // namespace tessera::kernels
