#include "compile/layout.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "model/hf_names.h"

namespace tessera::compile {

// Returns the mesh for the degrees of the layout. With ZeRO groups the data-parallel ranks are
// divided: shard within a group, replica between groups. Without ZeRO, every data-parallel rank
// still owns a shard of the gradient norm and of what is saved.
Mesh mesh_of(const Layout& l, int64_t head_copies) {
  Mesh m;
  // Data-parallel ranks that hold the same experts.
  const int64_t copies = std::max<int64_t>(1, l.data / l.expert);
  m[AxisKind::kPipeline] = l.pipeline;
  m[AxisKind::kShard] = l.zero > 0 && l.zero_group > 0 ? l.zero_group : copies;
  m[AxisKind::kReplica] = copies / m[AxisKind::kShard];
  m[AxisKind::kExpert] = l.expert;
  m[AxisKind::kContext] = l.context;
  // head_ranks / head_copies key/value heads are different.
  m[AxisKind::kTensorKv] = head_copies > 1 ? std::gcd(l.tensor, head_ranks(l) / head_copies) : 1;
  m[AxisKind::kTensor] = l.tensor / m[AxisKind::kTensorKv];
  return m;
}

int64_t head_ranks(const Layout& l) {
  return l.context_method == ContextMethod::kHeads ? l.tensor * l.context : l.tensor;
}

int64_t head_copies(const model::ModelConfig& m, const Layout& l) {
  const int64_t ranks = head_ranks(l);
  return ranks / std::gcd(ranks, model::key_value_heads(m));
}

Recompute parse_recompute(const std::string& text, int64_t layers) {
  if (text == "none") return {};
  if (text == "selective") return {.selective = true};
  if (text == "full") return {.full_layers = layers};
  int64_t n = 0;
  const char* end = text.data() + text.size();
  if (text.starts_with("full:")) {
    const auto [stop, error] = std::from_chars(text.data() + 5, end, n);
    if (error == std::errc() && stop == end && n >= 0 && n <= layers)
      return {.full_layers = n, .counted = true};
  }
  throw Error(
      "layout.recompute = '{}' is unknown. Expected none, selective, full, or full:N with "
      "N from 0 to {} layers.",
      text, layers);
}

}  // namespace tessera::compile
