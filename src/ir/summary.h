// A summary of a program for people, on about a page:
//
//   program train: 214 calls of 11 segments on 96 buffers
//   segments             calls    MFLOP       MiB   ops        of one call; MiB that must move
//     forward.layer         12    812.3      41.2   norm 2, matmul 4, …
//   buffers              count      KiB   together
//     layer.weights state    6     12.0       72.0
//   calls
//     #5-#10  forward.layer layer=0…5 mb=0
//   memory
//     state 402.1 MiB · transient 92.4, up to 12.0 of it scratch · arena 494.5 MiB
//     largest live set 490.0
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

std::string summary(const Program& p);

// For stages of a pipeline that differ: one row per stage with ranks, layers and bytes, then the
// segments that only some of them call.
std::string summary(const std::vector<Program>& stages);

}  // namespace tessera
