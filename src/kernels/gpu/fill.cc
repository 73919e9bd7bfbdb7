// Zeros (kernels/fill.h).
#include "kernels/gpu/table.h"

namespace tessera::kernels::gpu {

void clear(Stream s, View y) { fill_in_stream(s, y.data, 0, y.bytes()); }

}  // namespace tessera::kernels::gpu
