// Measures how much of the communication of expert parallelism overlaps with computation
// (overlap_bench.h), in layers of DeepSeek-V2-Lite's proportions, scaled to HIDDEN and with 16
// experts of which 6 are chosen, on two ranks that divide the experts:
//
//   mpirun -n 2 overlap_expert_bench [SHARE [ROUNDS [HIDDEN [LAYERS [SEQUENCES [SHARED]]]]]]
//
// SHARED is the inner width of the shared MLP relative to that of an expert (2 in the model). The
// link carries the exchange of tokens; the gradients of the other weights do not use it.
#include <cstdlib>

#include "bench/runtime/overlap_bench.h"
#include "model/presets.h"

namespace tessera {
namespace {

struct Options {
  int64_t hidden = 512, layers = 4, sequences = 4, shared = 2;
};

compile::CompileRequest request_of(const Options& o, bool overlap) {
  compile::CompileRequest r;
  model::ModelConfig& m = r.model;
  model::apply_family(model::Family::kDeepseekV2, m);
  m.layers = o.layers;
  m.hidden = o.hidden;
  m.heads = m.kv_heads = o.hidden / 128;
  m.vocabulary = m.vocabulary_multiple = 512;
  m.context = 128;
  m.dense_layers.clear();
  m.experts = 16;
  m.experts_per_token = 6;
  m.expert_feed_forward = o.hidden * 11 / 16;
  m.shared_feed_forward = o.shared * m.expert_feed_forward;
  m.latent = {
      .key_value_rank = o.hidden / 4, .nope_width = 128, .rope_width = 64, .value_width = 128};
  model::derive_sizes(m);
  r.tokens = 128;
  r.sequences = o.sequences;
  r.layout.data = r.layout.expert = 2;
  r.layout.zero = 0;
  r.options.ep_comm_overlap = overlap;
  return r;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::OverlapBench bench;
  bench.name = "overlap_expert_bench";
  bench.all_reduces = false;
  tessera::Options o;
  if (argc > 1) bench.share = std::atof(argv[1]);
  if (argc > 2) bench.rounds = std::atoi(argv[2]);
  if (argc > 3) o.hidden = std::atoll(argv[3]);
  if (argc > 4) o.layers = std::atoll(argv[4]);
  if (argc > 5) o.sequences = std::atoll(argv[5]);
  if (argc > 6) o.shared = std::atoll(argv[6]);
  bench.request = [o](bool overlap) { return tessera::request_of(o, overlap); };
  return tessera::measure_overlap(bench);
}
