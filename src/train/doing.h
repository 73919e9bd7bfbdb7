// Where a run stands, in the names of the model.
#pragma once

#include <string>

#include "runtime/executor.h"

namespace tessera {

// "backward.layer of layer 11, micro-batch 3: reduce_scatter of mlp.down over tensor"
std::string describe(const OpStart& at);

}  // namespace tessera
