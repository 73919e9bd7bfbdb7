// Enumerates the layouts that a search considers by nested loops over divisors, in a fixed order.
// Generates only combinations that check_layout() allows and that differ from each other.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "compile/compile.h"
#include "compile/layout_check.h"
#include "compile/schedule/schedule_passes.h"
#include "model/family.h"
#include "model/hf_names.h"
#include "plan/search.h"

namespace tessera::plan {
namespace {

// Returns the divisors in ascending order: those up to √n, then their counterparts in reverse.
std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all, large;
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  all.insert(all.end(), large.rbegin(), large.rend());
  return all;
}

constexpr const char* kOffloaded[] = {"activations", "optimizer", "activations+optimizer"};

struct Order {
  compile::PipelineSchedule schedule;
  int64_t interleave;
};

// Returns the pipeline schedules to try. With one stage they are all the same.
std::vector<Order> orders(const SearchRequest& r, int64_t pipeline) {
  std::vector<Order> all = {{compile::PipelineSchedule::k1F1B, 1}};
  if (pipeline == 1) return all;
  all.push_back({compile::PipelineSchedule::kGpipe, 1});
  all.push_back({compile::PipelineSchedule::kZeroBubble, 1});
  for (int64_t v = 2; v <= r.most_interleave && v * pipeline <= r.base.model.all_layers(); ++v)
    all.push_back({compile::PipelineSchedule::kInterleaved1F1B, v});
  return all;
}

// Returns true if the tensor degree divides the query heads and the inner widths, and the key/value
// heads are divisible or can be replicated.
bool divides_model(const compile::CompileRequest& r, int64_t tensor) {
  const model::ModelConfig& m = r.model;
  const int64_t expert = m.experts > 0 ? model::expert_width(m) : 0;
  const bool copies = model::key_value_heads(m) % tensor != 0;
  return m.heads % tensor == 0 && model::inner_width(m) % tensor == 0 &&
         m.wide_feed_forward % tensor == 0 && expert % tensor == 0 &&
         (!copies || compile::can_copy_heads(r));
}

// Returns true unless the ranks of this tensor degree would cut blocks of moments in 8 bits, which
// the compiler finds out.
bool keeps_blocks(const compile::CompileRequest& r, int64_t tensor) {
  const auto is_coded = [](const compile::OptimizerPolicy& o) { return o.moments == DType::kU8; };
  const bool any = is_coded(r.optimizer) || std::any_of(r.groups.begin(), r.groups.end(),
                                                        [&](const compile::OptimizerGroup& g) {
                                                          return is_coded(g.policy);
                                                        });
  if (!any || tensor == 1) return true;
  compile::CompileRequest divided = r;
  divided.layout = compile::Layout();
  divided.layout.tensor = tensor;
  divided.layout.sequence_parallel = false;
  divided.microbatches = 1;
  divided.measures_noise = false;
  try {
    compile::compile(divided, Target());
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns the degrees of context parallelism to try: divisors of the devices and of the tokens.
std::vector<int64_t> contexts(const SearchRequest& r, int64_t devices) {
  const bool divides = !model::rule_of(r.base.model.family).has_encoder &&
                       r.base.options.attention != compile::AttentionKind::kUnfused;
  std::vector<int64_t> all = divisors(divides ? std::gcd(devices, r.base.tokens) : 1);
  std::erase_if(all, [&](int64_t degree) { return degree > r.most_context; });
  return all;
}

// Returns the ways to divide attention among context-parallel ranks to try: gathered keys, balanced
// where the tokens allow it, a ring in the same way if the run has one (GPUs do not support it),
// and all-to-all over heads.
std::vector<compile::Layout> context_methods(const SearchRequest& r, compile::Layout l) {
  l.context_method = compile::ContextMethod::kGather;
  l.context_balance = l.context > 1 && r.base.tokens % (2 * l.context) == 0;
  std::vector<compile::Layout> all = {l};
  const bool rings = r.base.layout.context_method == compile::ContextMethod::kRing;
  if (l.context > 1 && rings && compile::dropout_fits_ring(r.base.model, l, r.base.tokens)) {
    l.context_method = compile::ContextMethod::kRing;
    all.push_back(l);
  }
  l.context_method = compile::ContextMethod::kHeads;
  l.context_balance = false;
  const bool copies = compile::head_copies(r.base.model, l) > 1;
  if (l.context > 1 && r.base.model.heads % compile::head_ranks(l) == 0 &&
      (!copies || compile::can_copy_heads(r.base)))
    all.push_back(l);
  return all;
}

// Adds every combination of the remaining choices for these degrees of parallelism.
void add(const SearchRequest& r, const compile::Layout& ranks, std::vector<Candidate>& out) {
  const bool divided = ranks.tensor > 1;
  const int64_t shards = ranks.data / ranks.expert * ranks.context;  // ranks with the same weights
  const int64_t parts = ranks.tensor * ranks.context;
  const bool may_pad = ranks.context == 1 && !r.base.preference;
  const bool may_split = may_pad || r.base.tokens % parts == 0;
  for (const int64_t micro : divisors(common_batch(r.global, r.ramp) / ranks.data)) {
    // The gradient-noise scale compares a micro-batch with a step of several.
    if (r.base.measures_noise && micro * ranks.data == r.global) continue;
    for (const Order& order : orders(r, ranks.pipeline))
      for (int parallel = divided && may_split ? 1 : 0; parallel >= 0; --parallel)
        for (int64_t zero = 0; zero <= (shards > 1 ? 3 : 0); ++zero)
          for (const char* recompute : {"none", "selective", "full"}) {
            Candidate c{ranks, micro};
            c.layout.pipeline_schedule = order.schedule;
            c.layout.interleave = order.interleave;
            c.layout.sequence_parallel = parallel != 0;
            c.layout.zero = zero;
            c.layout.recompute = recompute;
            out.push_back(c);
            for (const char* offload : kOffloaded) {
              if (!r.offload || ranks.offload == offload) continue;
              c.layout.offload = offload;
              out.push_back(c);
            }
          }
  }
}

void add_degrees(const SearchRequest& r, int64_t tensor, int64_t context,
                 std::vector<Candidate>& all) {
  const int64_t experts = r.base.model.experts;
  for (const int64_t pipeline : divisors(r.devices / tensor / context)) {
    const int64_t data = r.devices / tensor / context / pipeline;
    if (pipeline > r.base.model.all_layers() || common_batch(r.global, r.ramp) % data != 0)
      continue;
    compile::Layout ranks = r.base.layout;
    ranks.stages.clear();
    ranks.tensor = tensor;
    ranks.context = context;
    ranks.pipeline = pipeline;
    ranks.data = data;
    for (const int64_t expert : divisors(std::gcd(data, std::max<int64_t>(1, experts)))) {
      if (ranks.zero_group > 0 && data / expert % ranks.zero_group != 0) continue;
      ranks.expert = expert;
      for (const compile::Layout& l : context_methods(r, ranks)) add(r, l, all);
    }
  }
}

}  // namespace

int64_t common_batch(int64_t global, const std::vector<int64_t>& ramp) {
  return std::accumulate(ramp.begin(), ramp.end(), global, std::gcd<int64_t, int64_t>);
}

// devices = tensor x context x pipeline x data: each divides the quotient so far, and data is the
// rest, which the experts' degree divides. A degree that the model or the batch does not allow is
// left out with all layouts that contain it.
std::vector<Candidate> candidates(const SearchRequest& r) {
  std::vector<Candidate> all;
  for (const int64_t tensor : divisors(r.devices)) {
    if (!divides_model(r.base, tensor) || !keeps_blocks(r.base, tensor)) continue;
    for (const int64_t context : contexts(r, r.devices / tensor))
      add_degrees(r, tensor, context, all);
  }
  return all;
}

compile::CompileRequest request_of(const SearchRequest& r, const Candidate& c) {
  compile::CompileRequest request = r.base;
  request.layout = c.layout;
  request.sequences = c.micro;
  request.microbatches = r.global / c.layout.data / c.micro;
  request.warmup_microbatches.clear();
  for (const int64_t batch : r.ramp)
    request.warmup_microbatches.push_back(batch / c.layout.data / c.micro);
  return request;
}

std::string text_of(const Candidate& c) {
  constexpr EnumArray<compile::PipelineSchedule, const char*> kSchedules = {
      "gpipe", "1f1b", "interleaved", "zero_bubble"};
  const compile::Layout& l = c.layout;
  std::string context;
  if (l.context > 1)
    context = fmt::format(
        "context {} ({}) x ", l.context,
        fmt::format("{}{}", l.context_balance ? "balanced " : "", name_of_entry(l.context_method)));
  std::string text = fmt::format("tensor {} x {}pipeline {} x data {}, micro {}", l.tensor, context,
                                 l.pipeline, l.data, c.micro);
  if (l.expert > 1) text += fmt::format(", expert {}", l.expert);
  if (l.pipeline > 1) text += fmt::format(", {}", kSchedules[l.pipeline_schedule]);
  if (l.interleave > 1) text += fmt::format(" {}", l.interleave);
  if (l.tensor > 1 && !l.sequence_parallel) text += ", no sequence parallelism";
  if (l.data / l.expert * l.context > 1) text += fmt::format(", ZeRO {}", l.zero);
  text += fmt::format(", recompute {}", l.recompute);
  return compile::parse_offload(l.offload).none() ? text
                                                  : text + fmt::format(", offload {}", l.offload);
}

}  // namespace tessera::plan
