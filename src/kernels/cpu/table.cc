// The table of CPU kernels.
#include "kernels/kernels.h"

namespace tessera::kernels {

const KernelTable& cpu_kernels() {
  static constexpr KernelTable kTable = table_of<Cpu>(AllArgs());
  return kTable;
}

}  // namespace tessera::kernels
