// Measures how much of the communication within layers overlaps with computation, on two ranks over
// a link so slow that communication is a given share of the computation, and what simulate()
// predicts:
//
//   computation    a step over a fast link, without the waits for communication
//   communication  the additional time of a step over the slow link without overlap: its bytes
//                  at the rate of the link, and the minimum time of each transfer
//   hidden         1 - (step - computation) / communication
//
// Steps with and without overlap take turns; medians are printed. The weights after all of them
// must be equal in every bit. The prediction uses the rates of the ops of some observed steps, the
// rate of the link and the shortest time of a transfer, measured without overlap.
#pragma once

#include <functional>
#include <string>

#include "compile/request.h"

namespace tessera {

struct OverlapBench {
  std::string name;
  double share = 0.5;  // time of communication / time of computation
  int rounds = 7;      // pairs of steps per median
  // Returns the request of a step of two ranks, with and without overlap.
  std::function<compile::CompileRequest(bool overlap)> request;
  // Whether all-reduces use the slow link. Without it, they are not part of the prediction.
  bool all_reduces = true;
};

// Runs the measurement on the two ranks of mpirun, and prints it on the first one. Returns the exit
// code: 1 if the weights differ, or after an error.
int measure_overlap(const OverlapBench& bench);

}  // namespace tessera
