// The router of a mixture of experts: the choice of experts, their weights, and the losses and
// biases that balance the load. Computed in f32, losses in f64. There are E experts, K per token.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

enum class RouterScoreKind : uint8_t { kSoftmax, kSigmoid };

struct RouterForm {
  RouterScoreKind score = RouterScoreKind::kSoftmax;
  bool renormalize = true;  // weights are divided by their sum + 1e-20
  float scale = 1;          // factor of the weights
  int64_t groups = 1, groups_chosen = 1;
  bool group_maximum = false;  // groups are compared by their best expert, not the two best
};

// s = softmax(z) or sigmoid(z). Chooses the K experts with the largest s + bias (of equal ones the
// first) within the `groups_chosen` groups with the largest sums of their two largest s + bias, or
// with the largest s + bias.
struct RouteArgs {
  RouterForm form;
  TensorView logits;   // [N, E] f32
  TensorView bias;     // [E] f32, or none
  TensorView choice;   // [N, K] i32  written, ascending
  TensorView weights;  // [N, K] f32  written
  TensorView scores;   // [N, E] f32  written
};
void launch(Cpu, const Launch&, const RouteArgs&);
void launch(Gpu, const Launch&, const RouteArgs&);

struct RouteGradArgs {
  RouterForm form;
  TensorView scores, choice;  // as the forward wrote them
  TensorView d_weights;       // [N, K] f32
  TensorView d_logits;        // [N, E] f32  written
};
void launch(Cpu, const Launch&, const RouteGradArgs&);
void launch(Gpu, const Launch&, const RouteGradArgs&);

// Each expert keeps the first `capacity` pairs of a sequence, in the order of tokens.
struct ExpertCapacityArgs {
  int64_t experts = 0, capacity = 0;
  TensorView choice;  // [B, T, K] i32
  TensorView kept;    // [B, T, K] i32  written: the choice, or -1 where the pair is dropped
};
void launch(Cpu, const Launch&, const ExpertCapacityArgs&);
void launch(Gpu, const Launch&, const ExpertCapacityArgs&);
int64_t workspace_bytes(Cpu, const ExpertCapacityArgs&, int threads);

// The losses of each of B sequences of T tokens, c of which have a label:
//   c · (balance · E / (K · T) · Σ_e n_e P_e + z · mean_t logsumexp(z_t)²)
// n_e is the number of choices of expert e, P_e the mean of its scores (sigmoid scores are first
// divided by their sum).
struct RouterLossForm {
  RouterScoreKind score = RouterScoreKind::kSoftmax;
  float balance = 0, z = 0;
};
struct RouterLossArgs {
  RouterLossForm form;
  TensorView logits, scores;  // [B, T, E] f32
  TensorView choice;          // [B, T, K] i32
  TensorView labels;          // [B, T] i32; negative: none
  double* loss = nullptr;     // += the losses; or none
  double* busiest = nullptr;  // += c · max_e n_e · E / (K · T); or none
  // += c · H / ln E with H = −Σ_e p_e ln p_e and p_e = n_e / (K · T); c for a single expert; or
  // none
  double* entropy = nullptr;
  int64_t capacity = 0;       // pairs per expert and sequence; 0: no pair is dropped
  double* dropped = nullptr;  // += c · Σ_e max(0, n_e − capacity) / (K · T); or none
};
void launch(Cpu, const Launch&, const RouterLossArgs&);
void launch(Gpu, const Launch&, const RouterLossArgs&);
int64_t workspace_bytes(Cpu, const RouterLossArgs&, int threads);
int64_t workspace_bytes(Gpu, const RouterLossArgs&, int threads);

struct RouterLossGradArgs {
  RouterLossForm form;
  TensorView logits, scores, choice, labels;
  const double* loss_scale = nullptr;  // in the kernel's device memory; or none
  TensorView d_logits;                 // [B, T, E] f32  written
};
void launch(Cpu, const Launch&, const RouterLossGradArgs&);
void launch(Gpu, const Launch&, const RouterLossGradArgs&);
int64_t workspace_bytes(Cpu, const RouterLossGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const RouterLossGradArgs&, int threads);

// load_e += E · n_e − K · N, with n_e the number of choices of expert e by N tokens.
struct RouterLoadArgs {
  TensorView choice;  // [N, K] i32
  TensorView load;    // [E] f32, bf16 or f16  added to
};
void launch(Cpu, const Launch&, const RouterLoadArgs&);
void launch(Gpu, const Launch&, const RouterLoadArgs&);

// bias −= rate · sign(load), unless *skip is not 0.
struct BalanceUpdateArgs {
  float rate = 0;
  TensorView load;  // [n] f32, bf16 or f16
  const double* skip = nullptr;
  TensorView bias;  // [n] f32  updated
};
void launch(Cpu, const Launch&, const BalanceUpdateArgs&);
void launch(Gpu, const Launch&, const BalanceUpdateArgs&);

}  // namespace tessera::kernels
