// From a request to its prediction, and to what could be asked for instead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera {

// Compiles all stages as the software would and simulates them. Throws Error for a layout that
// cannot be.
Prediction predict(const CompileRequest& request, const Hardware& hardware,
                   const Software& software, const Target& target);

// The request with other keys of the run file: "layout.tensor=4 layout.data=2".
struct Neighbour {
  std::string keys;
  CompileRequest request;
};

// One knob moved, on as many devices and with the same global batch: tensor, pipeline and data
// ranks against each other, micro-batch, recomputation, ZeRO, interleaving, sequence parallelism.
std::vector<Neighbour> neighbours(const CompileRequest& request);

struct Tried {
  std::string keys;
  Prediction prediction;
};

// Neighbours that can be compiled, fit and take less than `below_s`, the fastest first. Those whose
// proved bounds (search_bound.h) say that they do not are never compiled.
std::vector<Tried> try_neighbours(const CompileRequest& request, const Hardware& hardware,
                                  const Software& software, const Target& target, double below_s);

// The fewest devices (powers of two and eighths between them) on which the model fits, divided by
// tensor ranks (powers of two within a node) and stages, everything recomputed and micro-batches of
// one sequence. nullopt: on none, since one layer is too large for one node.
struct LeastDevices {
  int64_t devices = 0, tensor = 1, pipeline = 1;
  int64_t peak_bytes = 0;
};
std::optional<LeastDevices> least_devices(const CompileRequest& request, const Hardware& hardware,
                                          const Software& software, const Target& target);

}  // namespace tessera
