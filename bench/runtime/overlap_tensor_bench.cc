// Measures how much of the communication of tensor parallelism overlaps with computation
// (overlap_bench.h), in layers of GPT-2 on two tensor-parallel ranks:
//
//   mpirun -n 2 overlap_tensor_bench [SHARE [ROUNDS [HIDDEN [CHUNKS [LAYERS [SEQUENCES]]]]]]
#include <cstdlib>

#include "bench/runtime/overlap_bench.h"
#include "model/presets.h"

namespace tessera {
namespace {

struct Options {
  int64_t hidden = 512, chunks = 4, layers = 4, sequences = 4;
};

compile::CompileRequest request_of(const Options& o, bool overlap) {
  compile::CompileRequest r;
  model::apply_family(model::Family::kGpt2, r.model);
  r.model.layers = o.layers;
  r.model.hidden = o.hidden;
  r.model.heads = o.hidden / 64;
  r.model.vocabulary = r.model.vocabulary_multiple = 512;
  r.model.context = 128;
  model::derive_sizes(r.model);
  r.tokens = 128;
  r.sequences = o.sequences;
  r.layout.tensor = 2;
  r.options.tp_comm_overlap = overlap;
  r.options.tp_comm_chunks = o.chunks;
  return r;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::OverlapBench bench;
  bench.name = "overlap_tensor_bench";
  tessera::Options o;
  if (argc > 1) bench.share = std::atof(argv[1]);
  if (argc > 2) bench.rounds = std::atoi(argv[2]);
  if (argc > 3) o.hidden = std::atoll(argv[3]);
  if (argc > 4) o.chunks = std::atoll(argv[4]);
  if (argc > 5) o.layers = std::atoll(argv[5]);
  if (argc > 6) o.sequences = std::atoll(argv[6]);
  bench.request = [o](bool overlap) { return tessera::request_of(o, overlap); };
  return tessera::measure_overlap(bench);
}
