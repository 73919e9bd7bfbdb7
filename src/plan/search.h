// search(): the fastest layouts of a model on a number of devices.
//
// Looked at are all of
//   tensor × context × pipeline × data = devices with at most the context of `base`, interleave,
//   micro-batch, recomputation (none, selective, full), ZeRO 0 to 3, pipeline schedule, sequence
//   parallelism; on request also with activations in the host's memory
// that check_layout() allows, each program once (sequence parallelism is one with tensor > 1, ZeRO
// with data × context > 1, a schedule with pipeline > 1). A layout is left out only by a proved
// bound (search_bound.h): its step takes at least so long, or a rank needs at least so many bytes.
// What is left is compiled and simulated in full, best bounds first, until no bound is below the
// last of those kept. So the answer is that of simulating every layout; ties stand in the order of
// the candidates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/request.h"
#include "ir/target.h"
#include "plan/simulate.h"

namespace tessera::plan {

struct SearchRequest {
  compile::CompileRequest base;  // model, precision, options; of its layout what is not searched
  int64_t devices = 1;
  int64_t global = 1;  // sequences of a step
  // Batches of earlier steps (batch.warmup_sizes), which data × micro must divide too.
  std::vector<int64_t> ramp;
  size_t keep = 10;   // of the best
  bool prune = true;  // false: every layout is simulated in full, for tests
  // Divisors of layers that a stage may have as chunks: interleave is at most this.
  int64_t most_interleave = 8;
  // Each layout also with layout.offload = activations, optimizer, and both, in addition to that of
  // `base`.
  bool offload = false;
};

// One layout to look at.
struct Candidate {
  compile::Layout layout;
  int64_t micro = 1;
};

// Returns the largest number of sequences that divides the batch of every step.
int64_t common_batch(int64_t global, const std::vector<int64_t>& ramp);

// In a fixed order.
std::vector<Candidate> candidates(const SearchRequest& request);
compile::CompileRequest request_of(const SearchRequest& request, const Candidate& candidate);
// "tensor 8 x pipeline 64 x data 6, micro 1, 1f1b, ZeRO 1, recompute none"
std::string text_of(const Candidate& candidate);

struct Found {
  Candidate candidate;
  Prediction prediction;
};

struct SearchResult {
  std::vector<Found> best;  // by time
  int64_t candidates = 0;
  int64_t too_large = 0;       // by their bound of memory
  int64_t too_slow = 0;        // by their bound of time
  int64_t simulated = 0;       // the rest: compiled, and simulated where they fit
  int64_t fit = 0;             // of these
  int64_t smallest_bytes = 0;  // where none fits: what a rank of the smallest needs at least
};

// Throws Error where no layout can be made of so many devices.
SearchResult search(const SearchRequest& request, const Target& target, const Hardware& hardware,
                    const Software& software);

// Why one takes longer than another: the parts that differ, largest first, a line each.
std::vector<std::string> differences(const Prediction& slower, const Prediction& faster);

}  // namespace tessera::plan
