// Alternatives to a run: one knob changed (or two if the second makes the first one possible), on
// the same devices and with the same global batch. Proven bounds reject most of them before they
// are compiled; the others are simulated in full.
#include "plan/neighbors.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "compile/compile.h"
#include "compile/passes.h"
#include "compile/schedule/schedule_passes.h"
#include "plan/explain.h"
#include "plan/predict.h"
#include "plan/search_bound.h"

namespace tessera::plan {
namespace {

// The maximum number of calls of a program; longer programs are skipped to keep `plan` fast.
constexpr int64_t kMostCalls = 400'000;

int64_t global_batch(const compile::CompileRequest& r) {
  return r.sequences * r.layout.data * r.microbatches;
}

// Sets the number of micro-batches for the same global batch. Returns false if data × micro does
// not divide that batch.
bool divide(compile::CompileRequest& r, const compile::CompileRequest& from,
            const std::vector<int64_t>& ramp) {
  const int64_t together = r.sequences * r.layout.data;
  if (together == 0 || common_batch(global_batch(from), ramp) % together != 0) return false;
  r.microbatches = global_batch(from) / together;
  if (r.measures_noise && r.microbatches == 1) return false;  // nothing to compare with
  r.warmup_microbatches.clear();
  for (const int64_t batch : ramp) r.warmup_microbatches.push_back(batch / together);
  r.layout.stages.clear();
  return true;
}

class Neighbors {
 public:
  Neighbors(const compile::CompileRequest& from, const std::vector<int64_t>& ramp)
      : from_(from), ramp_(ramp) {}

  template <class Change>
  void add(const std::string& keys, Change change) {
    compile::CompileRequest r = from_;
    change(r);
    if (divide(r, from_, ramp_)) all.push_back({keys, std::move(r)});
  }

  // Doubles the ranks of one axis and halves those of another.
  void exchange(const char* more, int64_t compile::Layout::*up, const char* less,
                int64_t compile::Layout::*down) {
    if (from_.layout.*down % 2 != 0) return;
    const int64_t a = from_.layout.*up * 2, b = from_.layout.*down / 2;
    add(fmt::format("layout.{}={} layout.{}={}", more, a, less, b),
        [&](compile::CompileRequest& r) {
          r.layout.*up = a;
          r.layout.*down = b;
        });
  }

  std::vector<Neighbor> all;

 private:
  const compile::CompileRequest& from_;
  const std::vector<int64_t>& ramp_;
};

// Checks against the proven bounds whether a neighbor can fit and be fast enough.
class Promise {
 public:
  Promise(const compile::CompileRequest& request, const Hardware& hardware,
          const Software& software, const Target& target, double below_s)
      : hardware_(hardware), below_s_(below_s) {
    search_.base = as_compiled_by(software, request);
    search_.devices = compile::mesh_of(request.layout).ranks();
    search_.global = global_batch(request);
    bounds_.emplace(search_, target, hardware, software);
  }

  // Both functions throw Error for a layout that the model does not support.
  bool holds(const compile::CompileRequest& r) {
    const Bound b = bound(r);
    const double bytes = static_cast<double>(b.bytes) + hardware_.device.outside_bytes;
    return bytes <= usable_bytes(hardware_.device) && is_fast(b);
  }
  // Ignores memory: checks for a variant that needs less memory and at least as much time.
  bool holds_spared(const compile::CompileRequest& r) { return is_fast(bound(r)); }

 private:
  Bound bound(const compile::CompileRequest& r) {
    const compile::Recompute again =
        compile::parse_recompute(r.layout.recompute, r.model.all_layers());
    if (again.counted || r.model.encoder_layers > 0) return {};
    return bounds_->closer({r.layout, r.sequences});
  }
  bool is_fast(const Bound& b) const { return static_cast<double>(b.step_ns) < 1e9 * below_s_; }

  const Hardware& hardware_;
  double below_s_;
  SearchRequest search_;
  std::optional<Bounds> bounds_;  // refers to search_
};

class Trials {
 public:
  Trials(const compile::CompileRequest& request, const Hardware& hardware, const Software& software,
         const Target& target, double below_s)
      : hardware_(hardware),
        software_(software),
        target_(target),
        below_s_(below_s),
        promise_(request, hardware, software, target, below_s) {}

  void one(const Neighbor& n) {
    if (is_long(n.request)) return;
    try {
      if (promise_.holds(n.request)) keep(n);
    } catch (const Error&) {  // not a layout of this model
    }
  }

  // Tries the variants of a layout that does not fit, with just enough layers recomputed or
  // offloaded.
  void spared(const Neighbor& n) {
    if (is_long(n.request)) return;
    try {
      if (!promise_.holds_spared(n.request)) return;
      for (const Neighbor& spared : memory_savings(n, hardware_, software_, target_)) keep(spared);
    } catch (const Error&) {  // not a layout of this model
    }
  }

  std::vector<Tried> fastest_first() {
    std::stable_sort(tried_.begin(), tried_.end(), [](const Tried& a, const Tried& b) {
      return a.prediction.step_s < b.prediction.step_s;
    });
    return std::move(tried_);
  }

 private:
  static bool is_long(const compile::CompileRequest& r) {
    return 2 * r.microbatches * (r.model.layers + 2 * r.layout.pipeline) > kMostCalls;
  }

  void keep(const Neighbor& n) {
    if (std::any_of(tried_.begin(), tried_.end(), [&](const Tried& t) { return t.keys == n.keys; }))
      return;  // with all layers recomputed it equals a neighbor
    Prediction p = predict(n.request, hardware_, software_, target_);
    if (fits(p, hardware_) && p.step_s < below_s_) tried_.push_back({n.keys, std::move(p)});
  }

  const Hardware& hardware_;
  const Software& software_;
  const Target& target_;
  double below_s_;
  Promise promise_;
  std::vector<Tried> tried_;
};

// Adds other degrees of context parallelism, and other ways to divide attention among its ranks.
void add_contexts(Neighbors& n, const compile::CompileRequest& request) {
  const compile::Layout& l = request.layout;
  n.exchange("context", &compile::Layout::context, "data", &compile::Layout::data);
  n.exchange("context", &compile::Layout::context, "tensor", &compile::Layout::tensor);
  n.exchange("data", &compile::Layout::data, "context", &compile::Layout::context);
  n.exchange("tensor", &compile::Layout::tensor, "context", &compile::Layout::context);
  if (l.context_method != compile::ContextMethod::kHeads && request.tokens % (2 * l.context) == 0)
    n.add(fmt::format("layout.context_balance={}", !l.context_balance),
          [](compile::CompileRequest& r) { r.layout.context_balance = !r.layout.context_balance; });
  for (const compile::ContextMethod method : Enumerators<compile::ContextMethod>()) {
    // A ring is not proposed: GPUs do not support it.
    if (method == l.context_method || method == compile::ContextMethod::kRing) continue;
    const bool heads = method == compile::ContextMethod::kHeads;
    const bool unbalances = heads && l.context_balance;
    n.add(fmt::format("layout.context_method={}{}", name_of_entry(method),
                      unbalances ? " layout.context_balance=false" : ""),
          [method, unbalances](compile::CompileRequest& r) {
            r.layout.context_method = method;
            if (unbalances) r.layout.context_balance = false;
          });
  }
}

}  // namespace

// Exchanges between tensor, pipeline and data, then the other knobs one at a time.
std::vector<Neighbor> neighbors(const compile::CompileRequest& request,
                                const std::vector<int64_t>& ramp) {
  Neighbors n(request, ramp);
  const compile::Layout& l = request.layout;
  n.exchange("tensor", &compile::Layout::tensor, "data", &compile::Layout::data);
  n.exchange("tensor", &compile::Layout::tensor, "pipeline", &compile::Layout::pipeline);
  n.exchange("pipeline", &compile::Layout::pipeline, "data", &compile::Layout::data);
  n.exchange("pipeline", &compile::Layout::pipeline, "tensor", &compile::Layout::tensor);
  n.exchange("data", &compile::Layout::data, "tensor", &compile::Layout::tensor);
  n.exchange("data", &compile::Layout::data, "pipeline", &compile::Layout::pipeline);
  if (l.context > 1) add_contexts(n, request);
  for (const int64_t expert : {l.expert * 2, l.expert / 2})
    if (request.model.experts > 0 && expert > 0 &&
        std::gcd(l.data, request.model.experts) % expert == 0)
      n.add(fmt::format("layout.expert={}", expert),
            [&](compile::CompileRequest& r) { r.layout.expert = expert; });
  for (const int64_t micro : {request.sequences * 2, request.sequences / 2})
    if (micro > 0)
      n.add(fmt::format("batch.micro={}", micro),
            [&](compile::CompileRequest& r) { r.sequences = micro; });
  for (const char* recompute : {"none", "selective", "full"})
    if (l.recompute != recompute)
      n.add(fmt::format("layout.recompute={}", recompute),
            [&](compile::CompileRequest& r) { r.layout.recompute = recompute; });
  for (const int64_t zero : {0, 1, 2, 3})
    if (l.zero != zero && l.data * l.context > 1)
      n.add(fmt::format("layout.zero={}", zero),
            [&](compile::CompileRequest& r) { r.layout.zero = zero; });
  if (l.pipeline > 1 && l.interleave == 1)
    n.add("layout.pipeline_schedule=interleaved_1f1b layout.interleave=2",
          [](compile::CompileRequest& r) {
            r.layout.pipeline_schedule = compile::PipelineSchedule::kInterleaved1F1B;
            r.layout.interleave = 2;
          });
  if (l.pipeline > 1 && l.pipeline_schedule == compile::PipelineSchedule::k1F1B)
    n.add("layout.pipeline_schedule=zero_bubble", [](compile::CompileRequest& r) {
      r.layout.pipeline_schedule = compile::PipelineSchedule::kZeroBubble;
    });
  if (l.tensor > 1)
    n.add(fmt::format("layout.sequence_parallel={}", !l.sequence_parallel),
          [](compile::CompileRequest& r) {
            r.layout.sequence_parallel = !r.layout.sequence_parallel;
          });
  return std::move(n.all);
}

std::vector<Tried> try_neighbors(const compile::CompileRequest& request, const Hardware& hardware,
                                 const Software& software, const Target& target, double below_s,
                                 const std::vector<int64_t>& ramp) {
  Trials trials(request, hardware, software, target, below_s);
  for (const Neighbor& n : neighbors(request, ramp)) trials.one(n);
  trials.spared({"", request});
  compile::CompileRequest larger = request;
  larger.sequences *= 2;
  if (divide(larger, request, ramp))
    trials.spared({fmt::format("batch.micro={}", larger.sequences), larger});
  return trials.fastest_first();
}

// ---- Finds the minimum number of layers to recompute or offload so that a run fits, by bisection.
// Each step compiles the program of every stage, so the memory is exact.

namespace {

struct Knob {
  std::string compile::Layout::*value;
  const char* name;
  const char* all;  // the value for all layers; with ":N", for the first N of each stage
};
constexpr Knob kRecompute = {&compile::Layout::recompute, "recompute", "full"};
constexpr Knob kOffload = {&compile::Layout::offload, "offload", "activations"};

bool step_fits(const compile::CompileRequest& r, const Hardware& h, const Target& target) {
  const compile::CompiledBlocks blocks = compile::compile_blocks(r, target);
  for (int64_t stage = 0; stage < r.layout.pipeline; ++stage) {
    const Program p = compile::program_of(blocks, stage);
    if (!has_room(h.device, memory_need(p))) return false;
  }
  return true;
}

bool fits(const compile::CompileRequest& r, const Hardware& h, const Software& s,
          const Target& target) {
  const compile::CompileRequest compiled = as_compiled_by(s, r);
  return step_fits(compiled, h, target) &&
         std::ranges::all_of(compile::smaller_steps(compiled),
                             [&](const auto& smaller) { return step_fits(smaller, h, target); });
}

// Returns the number of layers of the largest stage.
int64_t layers_of_stage(const compile::CompileRequest& r) {
  const int64_t stages = r.layout.pipeline;
  return (r.model.all_layers() + stages - 1) / stages;
}

Neighbor with(const Neighbor& run, const Knob& knob, const std::string& value) {
  Neighbor n = run;
  n.request.layout.*knob.value = value;
  n.keys += fmt::format("{}layout.{}={}", run.keys.empty() ? "" : " ", knob.name, value);
  return n;
}

Neighbor with(const Neighbor& run, const Knob& knob, int64_t layers) {
  const bool all = layers == layers_of_stage(run.request);
  return with(run, knob, all ? std::string(knob.all) : fmt::format("{}:{}", knob.all, layers));
}

}  // namespace

std::vector<Neighbor> memory_savings(const Neighbor& run, const Hardware& hardware,
                                     const Software& software, const Target& target) {
  const auto holds = [&](const Neighbor& n) { return fits(n.request, hardware, software, target); };
  std::vector<Neighbor> found;
  if (holds(run)) return found;
  const bool offloads = compile::parse_offload(run.request.layout.offload).none() &&
                        hardware.device.host_bytes_per_s > 0;
  std::vector<Knob> knobs;
  const compile::Recompute again =
      compile::parse_recompute(run.request.layout.recompute, run.request.model.all_layers());
  if (again.full_layers == 0 && !again.counted) knobs.push_back(kRecompute);
  if (offloads) knobs.push_back(kOffload);
  for (const Knob& knob : knobs) {
    // Bisection: the run fits with `enough` layers and does not with `too_few`.
    int64_t too_few = 0, enough = layers_of_stage(run.request);
    if (!holds(with(run, knob, enough))) continue;
    while (enough - too_few > 1) {
      const int64_t layers = (too_few + enough) / 2;
      (holds(with(run, knob, layers)) ? enough : too_few) = layers;
    }
    found.push_back(with(run, knob, enough));
  }
  for (const std::string value : {"optimizer", "activations+optimizer"}) {
    const Neighbor n = with(run, kOffload, value);
    if (!offloads || !holds(n)) continue;
    found.push_back(n);
    break;
  }
  return found;
}

}  // namespace tessera::plan
