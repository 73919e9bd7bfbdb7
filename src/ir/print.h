// The text of a graph or program: stable, and parse() reads it back exactly (ir/parse.h).
//
//   program train state=… scratch=… bytes=… live=… mesh=pipeline:2,shard:4 stage=1
//   values
//     %3 layer.norm1.gain f32 [1024] weight per=layer constant=1.0 in=layer.weights+4096
//   kinds
//     $0 layer.weights bytes=8192 per=layer state: layer.norm1.gain, layer.norm1.bias
//   segments
//     $2 forward.layer queue=compute scratch=4096
//       read layer.weights, hidden
//       write hidden'
//       %12, %13 = norm (%7, layer.norm1.gain, layer.norm1.bias) epsilon=1e-05 at=layer.norm1
//           : bf16 [1, 2048, 1024], f32 [1, 2048, 2]                           (on the same line)
//   buffers
//     @7 layer.weights layer=3 offset=24576 state
//   calls
//     #7 head mb=0 buffers=@3,@5 first_write=head.gradients,report after=#1 before_step=#9
//
// Computed values are shown as %number; others, buffer kinds and segments by name if it is unique.
// The placement of a value on a mesh axis is shown only if it is not replicated (place=tensor:0,
// shard:shared), the shape of one rank's shard only if an axis splits it. Defaults are omitted.
// Numbers are the shortest that read back the same.
#pragma once

#include <string>

#include "ir/program.h"

namespace tessera {

std::string print(const Graph& g);
std::string print(const Program& p);

}  // namespace tessera
