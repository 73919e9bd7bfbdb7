// The router on the GPU (kernels/router.h), with one thread per token. One block computes the
// losses of a sequence: each thread sums its tokens, and the sums of the threads are added in a
// fixed order.
#include "kernels/router.h"

#include <cmath>

#include "kernels/cross_entropy.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"
#include "kernels/route_row.h"

namespace tessera::kernels::gpu {
namespace {

__device__ void score_row(RouterScoreKind kind, const float* z, int64_t n, float* s) {
  if (kind == RouterScoreKind::kSigmoid) {
    for (int64_t e = 0; e < n; ++e) s[e] = 1.0f / (1.0f + expf(-z[e]));
    return;
  }
  float most = z[0], sum = 0;
  for (int64_t e = 1; e < n; ++e) most = fmaxf(most, z[e]);
  for (int64_t e = 0; e < n; ++e) sum += s[e] = expf(z[e] - most);
  for (int64_t e = 0; e < n; ++e) s[e] /= sum;
}

__device__ double log_sum_exp(const float* z, int64_t n) {
  float most = z[0];
  for (int64_t e = 1; e < n; ++e) most = fmaxf(most, z[e]);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += exp(static_cast<double>(z[e] - most));
  return static_cast<double>(most) + log(sum);
}

struct RouteWork {
  RouterForm form;
  const float *logits, *bias;
  int32_t* choice;
  float *weights, *scores;
  int64_t rows, experts, chosen;
  __host__ __device__ int64_t count() const { return rows; }
  __device__ void operator()(int64_t n) const {
    float* const s = scores + n * experts;
    int32_t* const own = choice + n * chosen;
    score_row(form.score, logits + n * experts, experts, s);
    choose_experts({s, bias, experts, form.groups, form.groups_chosen, form.group_maximum}, chosen,
                   own);
    const float sum = chosen_sum(form, s, own, chosen);
    for (int64_t j = 0; j < chosen; ++j) weights[n * chosen + j] = s[own[j]] / sum * form.scale;
  }
};

// weights = scale s_j / sum over the chosen s. With c the sum, the derivative by s_j is
// scale / c (dw_j - sum_i dw_i s_i / c), and the function of the scores is applied after it.
struct RouteGradWork {
  RouterForm form;
  const float* scores;
  const int32_t* choice;
  const float* d_weights;
  float* d_logits;
  int64_t rows, experts, chosen;
  __host__ __device__ int64_t count() const { return rows; }
  __device__ void operator()(int64_t n) const {
    const float* const s = scores + n * experts;
    const int32_t* const own = choice + n * chosen;
    const float* const dw = d_weights + n * chosen;
    float* const d = d_logits + n * experts;
    const float sum = chosen_sum(form, s, own, chosen);
    // As on the CPU: only differences of dw count, so that the gradient of K = 1 is exactly 0.
    const float first = form.renormalize ? dw[0] : 0.0f;
    float mean = 0;
    for (int64_t j = 0; j < chosen && form.renormalize; ++j)
      mean += (dw[j] - first) * s[own[j]] / sum;
    for (int64_t e = 0; e < experts; ++e) d[e] = 0;
    for (int64_t j = 0; j < chosen; ++j) d[own[j]] = form.scale / sum * (dw[j] - first - mean);
    logits_gradient(form.score, s, experts, d);
  }
};

struct LoadWork {
  const int32_t* choice;
  Numbers load;
  int64_t experts, pairs;
  __host__ __device__ int64_t count() const { return experts; }
  __device__ void operator()(int64_t e) const {
    int64_t own = 0;
    for (int64_t i = 0; i < pairs; ++i) own += choice[i] == e ? 1 : 0;
    write(load, e, read(load, e) + static_cast<float>(experts * own - pairs));
  }
};

// Moves the bias of an expert against the sign of its excess load (Wang et al. 2024).
struct BalanceWork {
  float rate;
  Numbers load;
  const double* skip;
  float* bias;
  int64_t n;
  __host__ __device__ int64_t count() const { return n; }
  __device__ void operator()(int64_t i) const {
    if (skip != nullptr && *skip != 0) return;
    const float x = read(load, i);
    bias[i] -= x > 0 ? rate : (x < 0 ? -rate : 0.0f);
  }
};

// One block per sequence; thread i handles experts i, i + 256, …. Every pair has one expert, so all
// of `kept` is written.
constexpr int kCapacityThreads = 256;
struct CapacityWork {
  int64_t experts, capacity, pairs;  // pairs of a sequence
  const int32_t* choice;
  int32_t* kept;
};
__global__ void expert_capacity_kernel(const CapacityWork a) {
  const int64_t first = blockIdx.x * a.pairs;
  for (int64_t e = threadIdx.x; e < a.experts; e += kCapacityThreads) {
    int64_t load = 0;
    for (int64_t i = first; i < first + a.pairs; ++i)
      if (a.choice[i] == e) a.kept[i] = load++ < a.capacity ? static_cast<int32_t>(e) : -1;
  }
}

// Arguments of the losses and their gradient. `loads` has a row of E numbers for each sequence.
constexpr int kLossThreads = 256, kSums = 4;
struct LossOfRouter {
  RouterLossForm form;
  const float *logits, *scores;
  const int32_t *choice, *labels;
  int64_t sequences, tokens, experts, chosen;
  // [B, 4]: the contributions of a sequence to `loss`, `busiest`, `entropy` and `dropped`
  double* sums;
  int32_t* loads;  // [B, E]
  double *loss, *busiest, *entropy, *dropped;
  int64_t capacity;
  const double* loss_scale;
  float* d_logits;
};

// Counts the choices in the block's sequence; thread i handles experts i, i + 256, ….
__device__ void count_loads(const LossOfRouter& a, int64_t sequence) {
  const int32_t* const own = a.choice + sequence * a.tokens * a.chosen;
  for (int64_t e = threadIdx.x; e < a.experts; e += kLossThreads) {
    int32_t n = 0;
    for (int64_t i = 0; i < a.tokens * a.chosen; ++i) n += own[i] == e ? 1 : 0;
    a.loads[sequence * a.experts + e] = n;
  }
  __syncthreads();
}

// Computes the number of labels, the balance term and the z term of a sequence, in every thread.
__device__ void sequence_sums(const LossOfRouter& a, int64_t sequence, double (&sums)[3]) {
  const int32_t* const loads = a.loads + sequence * a.experts;
  sums[0] = sums[1] = sums[2] = 0;
  for (int64_t t = threadIdx.x; t < a.tokens; t += kLossThreads) {
    const int64_t row = sequence * a.tokens + t;
    const float* const s = a.scores + row * a.experts;
    double own = 0;
    for (int64_t e = 0; e < a.experts; ++e)
      own += static_cast<double>(loads[e]) * static_cast<double>(s[e]);
    sums[0] += a.labels[row] != kIgnoredLabel ? 1 : 0;
    sums[1] += own / static_cast<double>(score_sum(a.form.score, s, a.experts));
    if (a.form.z == 0) continue;
    const double l = log_sum_exp(a.logits + row * a.experts, a.experts);
    sums[2] += l * l;
  }
  block_sums(sums, reinterpret_cast<double*>(shared_floats()));
}

__global__ void router_loss_kernel(const LossOfRouter a) {
  const int64_t sequence = blockIdx.x;
  count_loads(a, sequence);
  double sums[3];
  sequence_sums(a, sequence, sums);
  if (threadIdx.x != 0) return;
  const int32_t* const loads = a.loads + sequence * a.experts;
  const double tokens = static_cast<double>(a.tokens), experts = static_cast<double>(a.experts);
  const double pairs = tokens * static_cast<double>(a.chosen);
  int32_t most = 0;
  int64_t dropped = 0;
  double entropy = 0;
  for (int64_t e = 0; e < a.experts; ++e) {
    most = loads[e] > most ? loads[e] : most;
    if (a.capacity > 0 && loads[e] > a.capacity) dropped += loads[e] - a.capacity;
    const double p = static_cast<double>(loads[e]) / pairs;
    if (p > 0) entropy -= p * log(p);
  }
  const double balance = static_cast<double>(a.form.balance) * experts / (pairs * tokens) * sums[1];
  double* const own = a.sums + kSums * sequence;
  own[0] = sums[0] * (balance + static_cast<double>(a.form.z) / tokens * sums[2]);
  own[1] = sums[0] * static_cast<double>(most) * experts / pairs;
  own[2] = sums[0] * (a.experts == 1 ? 1.0 : entropy / log(experts));
  own[3] = sums[0] * static_cast<double>(dropped) / pairs;
}

__global__ void add_router_losses_kernel(const LossOfRouter a) {
  if (threadIdx.x != 0) return;
  for (int64_t i = 0; i < a.sequences; ++i) {
    if (a.loss != nullptr) *a.loss += a.sums[kSums * i];
    if (a.busiest != nullptr) *a.busiest += a.sums[kSums * i + 1];
    if (a.entropy != nullptr) *a.entropy += a.sums[kSums * i + 2];
    if (a.dropped != nullptr) *a.dropped += a.sums[kSums * i + 3];
  }
}

__global__ void router_loss_grad_kernel(const LossOfRouter a) {
  const int64_t sequence = blockIdx.x;
  count_loads(a, sequence);
  double sums[3];
  sequence_sums(a, sequence, sums);
  const int32_t* const loads = a.loads + sequence * a.experts;
  const auto tokens = static_cast<float>(a.tokens);
  const float scale = a.loss_scale == nullptr ? 1.0f : static_cast<float>(*a.loss_scale);
  const float weight = scale * static_cast<float>(sums[0]);
  const float balance = weight * a.form.balance * static_cast<float>(a.experts) /
                        (tokens * tokens * static_cast<float>(a.chosen));
  const bool divided = a.form.score == RouterScoreKind::kSigmoid;
  for (int64_t t = threadIdx.x; t < a.tokens; t += kLossThreads) {
    const int64_t row = (sequence * a.tokens + t) * a.experts;
    const float* const s = a.scores + row;
    float* const d = a.d_logits + row;
    const float sum = score_sum(a.form.score, s, a.experts);
    // As on the CPU: only differences of loads count, so that equal loads give exactly 0.
    const auto excess = [&](int64_t e) { return static_cast<float>(loads[e] - loads[0]); };
    float mean = 0;
    for (int64_t e = 0; e < a.experts; ++e) mean += s[e] * excess(e) / sum;
    for (int64_t e = 0; e < a.experts; ++e)
      d[e] = balance * (excess(e) - (divided ? mean : 0.0f)) / sum;
    logits_gradient(a.form.score, s, a.experts, d);
    if (a.form.z == 0) continue;
    const float* const z = a.logits + row;
    const double l = log_sum_exp(z, a.experts);
    const double factor = static_cast<double>(weight * 2 * a.form.z / tokens) * l;
    for (int64_t e = 0; e < a.experts; ++e)
      d[e] += static_cast<float>(factor * exp(static_cast<double>(z[e]) - l));
  }
}

// Returns the kernel arguments. A is RouterLossArgs or RouterLossGradArgs.
template <class A>
LossOfRouter work_of(const A& a, void* workspace) {
  require(a.scores.shape.rank() == 3 && a.choice.shape.rank() == 3,
          "the router loss needs scores [B, T, E] and choices [B, T, K]");
  LossOfRouter w = {};
  w.form = a.form;
  w.logits = a.logits.template as<float>();
  w.scores = a.scores.template as<float>();
  w.choice = a.choice.template as<int32_t>();
  w.labels = a.labels.template as<int32_t>();
  w.sequences = a.scores.shape[0];
  w.tokens = a.scores.shape[1];
  w.experts = a.scores.shape[2];
  w.chosen = a.choice.shape[2];
  w.sums = static_cast<double*>(workspace);
  w.loads = reinterpret_cast<int32_t*>(w.sums + kSums * w.sequences);
  return w;
}
int64_t loss_bytes(View scores) {
  return scores.shape[0] * (kSums * static_cast<int64_t>(sizeof(double)) +
                            scores.shape[2] * static_cast<int64_t>(sizeof(int32_t)));
}

Grid grid_of(int64_t blocks) {
  return {.x = blocks, .threads = kLossThreads, .shared_bytes = 3 * kWarp * sizeof(double)};
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const RouteArgs& a) {
  launch_map("route", l.stream,
             RouteWork{a.form, a.logits.as<float>(), a.bias ? a.bias.as<float>() : nullptr,
                       a.choice.as<int32_t>(), a.weights.as<float>(), a.scores.as<float>(),
                       rows_of(a.scores), columns_of(a.scores), columns_of(a.choice)});
}

void launch(Gpu, const Launch& l, const RouteGradArgs& a) {
  launch_map("route_grad", l.stream,
             RouteGradWork{a.form, a.scores.as<float>(), a.choice.as<int32_t>(),
                           a.d_weights.as<float>(), a.d_logits.as<float>(), rows_of(a.scores),
                           columns_of(a.scores), columns_of(a.choice)});
}

void launch(Gpu, const Launch& l, const ExpertCapacityArgs& a) {
  launch("expert_capacity", expert_capacity_kernel,
         {.x = a.choice.shape[0], .threads = kCapacityThreads}, l.stream,
         CapacityWork{a.experts, a.capacity, a.choice.shape[1] * a.choice.shape[2],
                      a.choice.as<int32_t>(), a.kept.as<int32_t>()});
}

int64_t workspace_bytes(Gpu, const RouterLossArgs& a, int) { return loss_bytes(a.scores); }
int64_t workspace_bytes(Gpu, const RouterLossGradArgs& a, int) { return loss_bytes(a.scores); }

void launch(Gpu, const Launch& l, const RouterLossArgs& a) {
  if (a.loss == nullptr && a.busiest == nullptr && a.entropy == nullptr && a.dropped == nullptr)
    return;
  LossOfRouter w = work_of(a, l.workspace);
  w.loss = a.loss;
  w.busiest = a.busiest;
  w.entropy = a.entropy;
  w.capacity = a.capacity;
  w.dropped = a.dropped;
  launch("router_loss", router_loss_kernel, grid_of(w.sequences), l.stream, w);
  launch("router_loss_sum", add_router_losses_kernel, {.x = 1, .threads = kWarp}, l.stream, w);
}

void launch(Gpu, const Launch& l, const RouterLossGradArgs& a) {
  LossOfRouter w = work_of(a, l.workspace);
  w.loss_scale = a.loss_scale;
  w.d_logits = a.d_logits.as<float>();
  launch("router_loss_grad", router_loss_grad_kernel, grid_of(w.sequences), l.stream, w);
}

void launch(Gpu, const Launch& l, const RouterLoadArgs& a) {
  launch_map(
      "router_load", l.stream,
      LoadWork{a.choice.as<int32_t>(), numbers(a.load), a.load.elements(), a.choice.elements()});
}

void launch(Gpu, const Launch& l, const BalanceUpdateArgs& a) {
  launch_map("balance_update", l.stream,
             BalanceWork{a.rate, numbers(a.load), a.skip, a.bias.as<float>(), a.bias.elements()});
}

}  // namespace tessera::kernels
