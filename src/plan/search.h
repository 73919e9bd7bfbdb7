// search(): the fastest layouts of a model on a number of devices.
//
// Looked at are all of
//   tensor × context × pipeline × data = devices with at most `most_context`, expert (a divisor of
//   data and of the experts), interleave, micro-batch, recomputation (none, selective, full), ZeRO
//   0 to 3, pipeline schedule, sequence parallelism; on request also with activations in the host's
//   memory
// that check_layout() allows, each program once (sequence parallelism is one with tensor > 1, ZeRO
// with data / expert × context > 1, a schedule with pipeline > 1). A layout is left out only by a
// proved bound (search_bound.h): a lower bound of its step time or of the bytes that a rank needs.
// The others are compiled and simulated in full, lowest bound first, until no bound is below the
// worst layout kept. So the result is the same as if every layout were simulated; ties are in the
// order of the candidates.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compile/request.h"
#include "ir/target.h"
#include "plan/simulate.h"

namespace tessera::plan {

struct SearchResult;

struct SearchRequest {
  compile::CompileRequest base;  // model, precision, options, and the part of its
                                 // layout that is not searched
  int64_t devices = 1;
  int64_t global = 1;  // sequences per step
  // Batches of earlier steps (batch.warmup_sizes), which data × micro must divide too.
  std::vector<int64_t> ramp;
  size_t keep = 10;   // number of layouts to return
  bool prune = true;  // false: every layout is simulated in full, for tests
  // Divisors of layers that a stage may have as chunks: interleave is at most this.
  int64_t most_interleave = 8;
  // Largest degree of context parallelism.
  int64_t most_context = 1;
  // Called after each step of the search with the results so far, and with the number of layouts
  // whose bounds do not exclude them yet.
  std::function<void(const SearchResult& so_far, int64_t open)> progress = {};
  // Each layout also with layout.offload = activations, optimizer, and both, in addition to that of
  // `base`.
  bool offload = false;
  // Threads that compile blocks. More than one requires a target whose functions several threads
  // may call at once.
  size_t threads = 1;
};

// A layout that the search evaluates, with the size of its micro-batches.
struct Candidate {
  compile::Layout layout;
  int64_t micro = 1;
};

// Returns the largest number of sequences that divides the batch of every step.
int64_t common_batch(int64_t global, const std::vector<int64_t>& ramp);

// Returns the layouts to evaluate, in a fixed order.
std::vector<Candidate> candidates(const SearchRequest& request);
compile::CompileRequest request_of(const SearchRequest& request, const Candidate& candidate);
// "tensor 8 x pipeline 64 x data 6, micro 1, 1f1b, ZeRO 1, recompute none"
std::string text_of(const Candidate& candidate);

struct RankedLayout {
  Candidate candidate;
  Prediction prediction;
};

// The figures of a layout that was simulated and fits.
struct SimulatedLayout {
  Candidate candidate;
  double step_s = 0, mfu = 0;
  int64_t peak_bytes = 0;
};

struct SearchResult {
  std::vector<RankedLayout> best;        // by time
  std::vector<SimulatedLayout> fitting;  // in the order of simulation; contains `best`
  int64_t candidates = 0;
  int64_t too_large = 0;       // excluded by their memory bound
  int64_t too_slow = 0;        // excluded by their time bound
  int64_t simulated = 0;       // the rest: compiled, and simulated where they fit
  int64_t smallest_bytes = 0;  // if none fits: least memory per rank of any layout
};

// Throws Error if no layout uses that number of devices.
SearchResult search(const SearchRequest& request, const Target& target, const Hardware& hardware,
                    const Software& software);

// Explains why one layout is slower than another: the parts that differ, largest first, one per
// line.
std::vector<std::string> differences(const Prediction& slower, const Prediction& faster);

}  // namespace tessera::plan
