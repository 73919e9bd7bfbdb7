// Selects the GEMM and attention algorithms of a run on a GPU (kernels/kernel_choices.h).
#pragma once

#include <functional>
#include <string>

#include "comm/world.h"
#include "config/run_config.h"
#include "runtime/prepared_kernels.h"

namespace tessera::train {

// Selects the algorithms and shares them with all ranks, which must call it before they prepare
// anything else in `kernels`. Rank 0 reads kernel_selection.txt in the run directory, measures the
// GEMMs and attention shapes of the run's programs that are missing there, and writes the file
// again. All ranks then use the same selection, so that replicas, and a resumed run, compute the
// same bits. It does nothing on the CPU or with run.kernel_selection = heuristic. `say` receives a
// summary, a line per damaged line of the file, and the reason if cuDNN is not used for attention.
void share_products(runtime::PreparedKernels& kernels, const config::RunConfig& config,
                    comm::World& world, const std::function<double()>& now_s,
                    const std::function<void(const std::string&)>& say);

}  // namespace tessera::train
