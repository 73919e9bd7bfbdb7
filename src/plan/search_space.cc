// Enumerates the layouts that a search considers by nested loops over divisors, in a fixed order.
// Generates only combinations that check_layout() allows and that differ from each other.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "compile/layout_check.h"
#include "compile/schedule/schedule_passes.h"
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

// Adds every combination of the remaining choices for these degrees of parallelism.
void add(const SearchRequest& r, const compile::Layout& ranks, std::vector<Candidate>& out) {
  const bool divided = ranks.tensor > 1;
  const int64_t parts = ranks.tensor * ranks.context;
  const bool may_split = r.base.tokens % parts == 0 && r.base.encoder_tokens % parts == 0;
  for (const int64_t micro : divisors(common_batch(r.global, r.ramp) / ranks.data))
    for (const Order& order : orders(r, ranks.pipeline))
      for (int parallel = divided && may_split ? 1 : 0; parallel >= 0; --parallel)
        for (int64_t zero = 0; zero <= (ranks.data * ranks.context > 1 ? 3 : 0); ++zero)
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

void add_degrees(const SearchRequest& r, int64_t tensor, int64_t context,
                 std::vector<Candidate>& all) {
  for (const int64_t pipeline : divisors(r.devices / tensor / context)) {
    const int64_t data = r.devices / tensor / context / pipeline;
    if (pipeline > r.base.model.all_layers() || common_batch(r.global, r.ramp) % data != 0)
      continue;
    compile::Layout ranks = r.base.layout;
    ranks.stages.clear();
    ranks.expert = 1;
    if (ranks.zero_group > 0 && data % ranks.zero_group != 0) continue;
    ranks.tensor = tensor;
    ranks.context = context;
    ranks.pipeline = pipeline;
    ranks.data = data;
    add(r, ranks, all);
  }
}

}  // namespace

int64_t common_batch(int64_t global, const std::vector<int64_t>& ramp) {
  return std::accumulate(ramp.begin(), ramp.end(), global, std::gcd<int64_t, int64_t>);
}

// devices = tensor x context x pipeline x data: each divides the quotient so far, and data is the
// rest. A degree that the model or the batch does not allow is left out with all
// layouts that contain it.
std::vector<Candidate> candidates(const SearchRequest& r) {
  std::vector<Candidate> all;
  for (const int64_t tensor : divisors(r.devices)) {
    if (!divides_model(r.base, tensor)) continue;
    for (const int64_t context : divisors(std::gcd(r.devices / tensor, r.base.tokens)))
      if (context <= r.base.layout.context) add_degrees(r, tensor, context, all);
  }
  return all;
}

compile::CompileRequest request_of(const SearchRequest& r, const Candidate& c) {
  compile::CompileRequest request = r.base;
  request.layout = c.layout;
  request.sequences = c.micro;
  request.microbatches = r.global / c.layout.data / c.micro;
  return request;
}

std::string text_of(const Candidate& c) {
  constexpr EnumArray<compile::PipelineSchedule, const char*> kSchedules = {
      "gpipe", "1f1b", "interleaved", "zero_bubble"};
  const compile::Layout& l = c.layout;
  std::string text = fmt::format("tensor {} x {}pipeline {} x data {}, micro {}", l.tensor,
                                 l.context > 1 ? fmt::format("context {} x ", l.context) : "",
                                 l.pipeline, l.data, c.micro);
  if (l.pipeline > 1) text += fmt::format(", {}", kSchedules[l.pipeline_schedule]);
  if (l.interleave > 1) text += fmt::format(" {}", l.interleave);
  if (l.tensor > 1 && !l.sequence_parallel) text += ", no sequence parallelism";
  if (l.data * l.context > 1) text += fmt::format(", ZeRO {}", l.zero);
  text += fmt::format(", recompute {}", l.recompute);
  return compile::parse_offload(l.offload).none() ? text
                                                  : text + fmt::format(", offload {}", l.offload);
}

}  // namespace tessera::plan
