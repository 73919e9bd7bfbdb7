// The table of a GPU's kernels.
#include "kernels/kernels.h"

namespace tessera::kernels {

const KernelTable& gpu_kernels() {
  static constexpr KernelTable kTable = table_of<Gpu>(AllArgs());
  return kTable;
}

}  // namespace tessera::kernels
