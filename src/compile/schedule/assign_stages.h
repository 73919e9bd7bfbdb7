// Which stage of the pipeline has which layers, and what each stage does when.
#pragma once

#include "compile/request.h"
#include "compile/schedule/stage_share.h"
#include "ir/program.h"

namespace tessera {

// Gives each chunk the layers that the layout names, or spreads them so that the costliest chunk is
// as cheap as possible. Leaves StageShare::stage at 0.
StageShare assign_stages(const Graph& graph, const CompileRequest& request);

StagesOfBlocks holders_of(const Graph& graph, const StageShare& share);

}  // namespace tessera
