// Which algorithms the matrix products and the attention of a run on a GPU take
// (kernels/product_choices.h).
#pragma once

#include <functional>
#include <string>

#include "comm/world.h"
#include "config/run_config.h"
#include "runtime/prepared_kernels.h"

namespace tessera::train {

// All ranks call it before they prepare anything else in `kernels`. Rank 0 reads
// kernel_selection.txt in the run's directory, measures the products and the attention of the run's
// programs that it lacks, and writes it again; then all take the same, so that ranks that compute
// the same have the same bits, and so has a run that goes on after a stop. With
// run.kernel_selection = heuristic, or on the CPU, nothing happens. `say` hears what was found, of
// each damaged line of the file, and why cuDNN is not taken for attention.
void share_products(runtime::PreparedKernels& kernels, const config::RunConfig& config,
                    comm::World& world, const std::function<double()>& now_s,
                    const std::function<void(const std::string&)>& say);

}  // namespace tessera::train
