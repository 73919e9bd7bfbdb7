// Zeros (kernels/fill.h).
#include "kernels/cuda/table.h"

namespace tessera::kernels::cuda {

void clear(Stream s, View y) { fill_in_stream(s, y.data, 0, y.bytes()); }

}  // namespace tessera::kernels::cuda
