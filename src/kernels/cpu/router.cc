// The router on the CPU: rows and sequences run in parallel; the losses of the sequences are then
// added in order.
#include "kernels/router.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cross_entropy.h"
#include "kernels/route_row.h"

namespace tessera::kernels {
namespace {

// The extents of a router's operands.
struct Sizes {
  int64_t sequences, tokens, experts, chosen;
};
Sizes sizes(const TensorView& scores, const TensorView& choice) {
  CHECK(scores.shape.rank() == 3 && choice.shape.rank() == 3 && choice.dtype == DType::kI32 &&
            choice.shape[0] == scores.shape[0] && choice.shape[1] == scores.shape[1],
        "scores {}, choice {}", to_string(scores.shape), to_string(choice.shape));
  return {scores.shape[0], scores.shape[1], scores.shape[2], choice.shape[2]};
}

void score_row(RouterScoreKind kind, const float* z, int64_t n, float* s) {
  if (kind == RouterScoreKind::kSigmoid) {
    for (int64_t e = 0; e < n; ++e) s[e] = 1.0f / (1.0f + std::exp(-z[e]));
    return;
  }
  const float most = *std::max_element(z, z + n);
  float sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += s[e] = std::exp(z[e] - most);
  for (int64_t e = 0; e < n; ++e) s[e] /= sum;
}

double log_sum_exp(const float* z, int64_t n) {
  const float most = *std::max_element(z, z + n);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += std::exp(static_cast<double>(z[e] - most));
  return static_cast<double>(most) + std::log(sum);
}

// Counts the choices of each expert in a sequence.
void count_loads(const TensorView& choice, const Sizes& s, int64_t sequence, int32_t* loads) {
  const int64_t pairs = s.tokens * s.chosen;
  const int32_t* const own = choice.as<int32_t>() + sequence * pairs;
  std::fill_n(loads, s.experts, 0);
  for (int64_t i = 0; i < pairs; ++i) ++loads[own[i]];
}

int64_t labelled(const int32_t* labels, int64_t n) {
  return std::count_if(labels, labels + n, [](int32_t l) { return l != kIgnoredLabel; });
}

// Returns the entropy of the loads divided by that of even loads: 1 if all are equal, 0 if one
// expert has all tokens.
double relative_entropy(const int32_t* loads, int64_t experts, double pairs) {
  if (experts == 1) return 1;
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const double p = static_cast<double>(loads[e]) / pairs;
    if (p > 0) sum -= p * std::log(p);
  }
  return sum / std::log(static_cast<double>(experts));
}

// Returns the share of the pairs that are beyond the capacity of their experts.
double dropped_share(const int32_t* loads, int64_t experts, int64_t capacity, double pairs) {
  int64_t dropped = 0;
  for (int64_t e = 0; e < experts; ++e) dropped += std::max<int64_t>(loads[e] - capacity, 0);
  return static_cast<double>(dropped) / pairs;
}

// The losses of one sequence, the load of its busiest expert / mean load, the entropy of its loads
// / the largest possible, the share of its pairs that are dropped, and its number of labels.
struct SequenceLoss {
  double loss = 0, busiest = 0, entropy = 0, dropped = 0, weight = 0;
};
SequenceLoss loss_of(const RouterLossArgs& a, const Sizes& s, int64_t sequence, int32_t* loads) {
  const int64_t first = sequence * s.tokens;
  count_loads(a.choice, s, sequence, loads);
  double balance = 0, z = 0;
  for (int64_t t = first; t < first + s.tokens; ++t) {
    const float* const scores = a.scores.f32() + t * s.experts;
    double own = 0;
    for (int64_t e = 0; e < s.experts; ++e)
      own += static_cast<double>(loads[e]) * static_cast<double>(scores[e]);
    balance += own / static_cast<double>(score_sum(a.form.score, scores, s.experts));
    if (a.form.z == 0) continue;
    const double l = log_sum_exp(a.logits.f32() + t * s.experts, s.experts);
    z += l * l;
  }
  const auto tokens = static_cast<double>(s.tokens), experts = static_cast<double>(s.experts);
  const double pairs = tokens * static_cast<double>(s.chosen);
  SequenceLoss out;
  out.weight = static_cast<double>(labelled(a.labels.as<int32_t>() + first, s.tokens));
  out.loss = static_cast<double>(a.form.balance) * experts / (pairs * tokens) * balance +
             static_cast<double>(a.form.z) / tokens * z;
  out.busiest = static_cast<double>(*std::max_element(loads, loads + s.experts)) * experts / pairs;
  out.entropy = relative_entropy(loads, s.experts, pairs);
  if (a.capacity > 0) out.dropped = dropped_share(loads, s.experts, a.capacity, pairs);
  return out;
}

void gradient_of_sequence(const RouterLossGradArgs& a, const Sizes& s, int64_t sequence,
                          int32_t* loads) {
  const int64_t first = sequence * s.tokens;
  count_loads(a.choice, s, sequence, loads);
  const auto tokens = static_cast<float>(s.tokens);
  const float weight = scaled_by(1, a.loss_scale) *
                       static_cast<float>(labelled(a.labels.as<int32_t>() + first, s.tokens));
  const float balance = weight * a.form.balance * static_cast<float>(s.experts) /
                        (tokens * tokens * static_cast<float>(s.chosen));
  for (int64_t t = first; t < first + s.tokens; ++t) {
    const float* const scores = a.scores.f32() + t * s.experts;
    float* const d = a.d_logits.f32() + t * s.experts;
    const float sum = score_sum(a.form.score, scores, s.experts);
    // Excess of an expert's load over that of expert 0. The gradient depends only on differences of
    // loads; equal loads, as with K = E, then give exactly 0 instead of rounding noise.
    const auto excess = [&](int64_t e) { return static_cast<float>(loads[e] - loads[0]); };
    float mean = 0;  // mean excess, weighted by the normalized scores
    for (int64_t e = 0; e < s.experts; ++e) mean += scores[e] * excess(e) / sum;
    const bool divided = a.form.score == RouterScoreKind::kSigmoid;
    for (int64_t e = 0; e < s.experts; ++e)
      d[e] = balance * (excess(e) - (divided ? mean : 0)) / sum;
    logits_gradient(a.form.score, scores, s.experts, d);
    if (a.form.z == 0) continue;
    const float* const z = a.logits.f32() + t * s.experts;
    const double l = log_sum_exp(z, s.experts);
    const double factor = static_cast<double>(weight * 2 * a.form.z / tokens) * l;
    for (int64_t e = 0; e < s.experts; ++e)
      d[e] += static_cast<float>(factor * std::exp(static_cast<double>(z[e]) - l));
  }
}

}  // namespace

void launch(Cpu, const Launch& l, const RouteArgs& a) {
  const int64_t E = a.scores.shape[-1], K = a.choice.shape[-1], rows = a.scores.elements() / E;
  CHECK(a.choice.dtype == DType::kI32 && a.choice.elements() == rows * K && K <= E &&
            a.weights.elements() == rows * K,
        "route: scores {}, choice {}", to_string(a.scores.shape), to_string(a.choice.shape));
  const float* const bias = a.bias ? a.bias.f32() : nullptr;
  parallel_rows(rows, E * (K + 4), l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* const s = a.scores.f32() + n * E;
      int32_t* const choice = a.choice.as<int32_t>() + n * K;
      float* const w = a.weights.f32() + n * K;
      score_row(a.form.score, a.logits.f32() + n * E, E, s);
      choose_experts({s, bias, E, a.form.groups, a.form.groups_chosen, a.form.group_maximum}, K,
                     choice);
      const float sum = chosen_sum(a.form, s, choice, K);
      for (int64_t j = 0; j < K; ++j) w[j] = s[choice[j]] / sum * a.form.scale;
    }
  });
}

// With renormalization, w_j = scale · s_j / S, so the gradient with respect to a chosen s_j is
// scale / S · (dw_j − Σ_i dw_i s_i / S).
void launch(Cpu, const Launch& l, const RouteGradArgs& a) {
  const int64_t E = a.scores.shape[-1], K = a.choice.shape[-1], rows = a.scores.elements() / E;
  CHECK(a.d_weights.elements() == rows * K && a.d_logits.elements() == rows * E,
        "route_grad: scores {}, dw {}", to_string(a.scores.shape), to_string(a.d_weights.shape));
  parallel_rows(rows, E * 4, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* const s = a.scores.f32() + n * E;
      const int32_t* const choice = a.choice.as<int32_t>() + n * K;
      const float* const dw = a.d_weights.f32() + n * K;
      float* const d = a.d_logits.f32() + n * E;
      const float sum = chosen_sum(a.form, s, choice, K);
      // Renormalized weights add up to a constant, so only differences of dw count. With K = 1 the
      // gradient is then exactly 0 instead of rounding noise.
      const float first = a.form.renormalize ? dw[0] : 0;
      float mean = 0;
      for (int64_t j = 0; j < K && a.form.renormalize; ++j)
        mean += (dw[j] - first) * s[choice[j]] / sum;
      std::fill_n(d, E, 0.0f);
      for (int64_t j = 0; j < K; ++j) d[choice[j]] = a.form.scale / sum * (dw[j] - first - mean);
      logits_gradient(a.form.score, s, E, d);
    }
  });
}

int64_t workspace_bytes(Cpu, const ExpertCapacityArgs& a, int) {
  return a.choice.shape[0] * a.experts * static_cast<int64_t>(sizeof(int32_t));
}

void launch(Cpu, const Launch& l, const ExpertCapacityArgs& a) {
  CHECK(a.choice.shape.rank() == 3 && a.choice.dtype == DType::kI32 &&
            a.kept.shape == a.choice.shape && a.kept.dtype == DType::kI32 && a.capacity > 0,
        "capacity {} for choice {}", a.capacity, to_string(a.choice.shape));
  const int64_t pairs = a.choice.shape[1] * a.choice.shape[2];
  auto* const loads = static_cast<int32_t*>(l.workspace);
  parallel_rows(a.choice.shape[0], pairs, l.threads, [&](int64_t begin, int64_t end) {
    std::fill(loads + begin * a.experts, loads + end * a.experts, 0);
    for (int64_t i = begin * pairs; i < end * pairs; ++i) {
      const int32_t e = a.choice.as<int32_t>()[i];
      int32_t& load = loads[i / pairs * a.experts + e];
      a.kept.as<int32_t>()[i] = load++ < a.capacity ? e : -1;
    }
  });
}

// Workspace: [ SequenceLoss [B] | loads i32 [B, E] ].
int64_t workspace_bytes(Cpu, const RouterLossArgs& a, int) {
  const Sizes s = sizes(a.scores, a.choice);
  return s.sequences * (static_cast<int64_t>(sizeof(SequenceLoss)) +
                        s.experts * static_cast<int64_t>(sizeof(int32_t)));
}

void launch(Cpu, const Launch& l, const RouterLossArgs& a) {
  const Sizes s = sizes(a.scores, a.choice);
  if (a.loss == nullptr && a.busiest == nullptr && a.entropy == nullptr && a.dropped == nullptr)
    return;
  auto* const all = static_cast<SequenceLoss*>(l.workspace);
  auto* const loads = reinterpret_cast<int32_t*>(all + s.sequences);
  parallel_rows(s.sequences, s.tokens * s.experts, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) all[i] = loss_of(a, s, i, loads + i * s.experts);
  });
  for (int64_t i = 0; i < s.sequences; ++i) {
    if (a.loss != nullptr) *a.loss += all[i].weight * all[i].loss;
    if (a.busiest != nullptr) *a.busiest += all[i].weight * all[i].busiest;
    if (a.entropy != nullptr) *a.entropy += all[i].weight * all[i].entropy;
    if (a.dropped != nullptr) *a.dropped += all[i].weight * all[i].dropped;
  }
}

int64_t workspace_bytes(Cpu, const RouterLossGradArgs& a, int) {
  const Sizes s = sizes(a.scores, a.choice);
  return s.sequences * s.experts * static_cast<int64_t>(sizeof(int32_t));
}

void launch(Cpu, const Launch& l, const RouterLossGradArgs& a) {
  const Sizes s = sizes(a.scores, a.choice);
  auto* const loads = static_cast<int32_t*>(l.workspace);
  parallel_rows(s.sequences, s.tokens * s.experts, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) gradient_of_sequence(a, s, i, loads + i * s.experts);
  });
}

void launch(Cpu, const Launch&, const RouterLoadArgs& a) {
  const int64_t E = a.load.elements(), K = a.choice.shape[-1], pairs = a.choice.elements();
  const Sink load(a.load);
  const auto* const choice = a.choice.as<int32_t>();
  for (int64_t e = 0; e < E; ++e) {
    const int64_t own = std::count(choice, choice + pairs, static_cast<int32_t>(e));
    load.set(e, Source(load)[e] + static_cast<float>(E * own - K * (pairs / K)));
  }
}

void launch(Cpu, const Launch&, const BalanceUpdateArgs& a) {
  if (a.skip != nullptr && *a.skip != 0) return;
  const Source load(a.load);
  float* const bias = a.bias.f32();
  for (int64_t i = 0; i < a.bias.elements(); ++i)
    bias[i] -= load[i] > 0 ? a.rate : (load[i] < 0 ? -a.rate : 0.0f);
}

}  // namespace tessera::kernels
