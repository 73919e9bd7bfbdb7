// The loss of one pair of answers and its gradient, for the kernels of every device.
#pragma once

#include <cmath>

#include "kernels/preference.h"

namespace tessera::kernels {

// Results of one pair. `d_chosen` and `d_rejected` are the gradients of the loss with respect to
// the sums of both answers.
struct PairLoss {
  bool counts = false;  // false: the row has no pair, and all else is 0
  double loss = 0, d_chosen = 0, d_rejected = 0;
  double figures[kPreferenceFigures] = {};
};

// A template, so that its functions may call those of <cmath>, whichever device compiles it.
template <class Real>
struct PairMath {
  static constexpr Real sigmoid(Real x) { return 1 / (1 + exp(-x)); }
  // ln σ(x), without overflow.
  static constexpr Real log_sigmoid(Real x) { return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x)); }
  // ln(1 − e^x) for x < 0: the branch keeps the digits of both terms (Mächler 2012).
  static constexpr Real log_1m_exp(Real x) {
    return x > Real(-0.6931471805599453) ? log(-expm1(x)) : log1p(-exp(x));
  }
};

// The numbers of both answers: log-probabilities (minus the reference's, if the loss has one), or
// scores.
template <class Real>
struct PairNumbers {
  Real chosen = 0, rejected = 0;
  Real chosen_tokens = 1, rejected_tokens = 1;  // divisors
};

template <class Real>
constexpr PairNumbers<Real> pair_numbers(const PreferenceForm& f, const Real* sums,
                                         const Real* references) {
  using Kind = PreferenceLossKind;
  PairNumbers<Real> p;
  const bool refers = f.kind == Kind::kDpo || f.kind == Kind::kIpo || f.kind == Kind::kKto;
  if (f.mean) p.chosen_tokens = sums[1];
  if (f.mean) p.rejected_tokens = sums[3];
  p.chosen = (sums[0] - (refers ? references[0] : 0)) / p.chosen_tokens;
  p.rejected = (sums[2] - (refers ? references[1] : 0)) / p.rejected_tokens;
  return p;
}

// A loss that depends on the difference of both numbers only, and its slope.
template <class Real>
struct DifferenceLoss {
  Real loss = 0, slope = 0;
};
template <class Real>
constexpr DifferenceLoss<Real> difference_loss(const PreferenceForm& f, Real difference,
                                               Real margin) {
  using M = PairMath<Real>;
  const Real x = f.beta * difference, e = f.label_smoothing;
  switch (f.kind) {
    case PreferenceLossKind::kDpo:
      return {-(1 - e) * M::log_sigmoid(x) - e * M::log_sigmoid(-x),
              f.beta * (e * M::sigmoid(x) - (1 - e) * M::sigmoid(-x))};
    case PreferenceLossKind::kIpo: {
      const Real far = difference - 1 / (2 * f.beta);
      return {far * far, 2 * far};
    }
    case PreferenceLossKind::kSimpo:
      return {-M::log_sigmoid(x - f.gamma), -f.beta * M::sigmoid(f.gamma - x)};
    default:  // a reward model
      return {-M::log_sigmoid(difference - margin), -M::sigmoid(margin - difference)};
  }
}

// An answer that is certain has infinite odds; a bound on its log-probability keeps them finite.
// `factor` is that of the cross-entropy.
template <class Real>
constexpr void set_orpo_loss(const PreferenceForm& f, const PairNumbers<Real>& p, Real chosen_sum,
                             Real factor, PairLoss& out) {
  using M = PairMath<Real>;
  constexpr Real kMost = -1e-9;
  const Real c = p.chosen < kMost ? p.chosen : kMost;
  const Real r = p.rejected < kMost ? p.rejected : kMost;
  const Real odds = (c - r) - (M::log_1m_exp(c) - M::log_1m_exp(r));
  const Real slope = -f.beta * M::sigmoid(-odds);
  out.figures[5] = -chosen_sum * factor;
  out.loss = out.figures[5] - f.beta * M::log_sigmoid(odds);
  out.d_chosen = -factor + slope / (-expm1(c) * p.chosen_tokens);
  out.d_rejected = -slope / (-expm1(r) * p.rejected_tokens);
}

// Only the first answer of the row has a loss.
template <class Real>
constexpr void set_kto_loss(const PreferenceForm& f, Real difference, Real sum, Real z,
                            bool desirable, PairLoss& out) {
  const Real sign = desirable ? 1 : -1;
  const Real weight = desirable ? f.desirable_weight : f.undesirable_weight;
  const Real s = PairMath<Real>::sigmoid(sign * f.beta * (difference - z));
  out.loss = weight * (1 - s);
  out.d_chosen = -weight * sign * f.beta * s * (1 - s);
  // No index is computed at run time, so that a GPU keeps the figures in registers.
  const Real reward = f.beta * difference;
  out.figures[0] = desirable ? reward : 0;
  out.figures[1] = desirable ? 0 : reward;
  out.figures[2] = desirable ? 1 : 0;
  out.figures[3] = desirable ? sum : 0;
  out.figures[4] = desirable ? 0 : sum;
  out.figures[5] = z;
}

// `sums` [2, 2] and `references` [3] belong to one row.
template <class Real>
constexpr PairLoss pair_loss(const PreferenceForm& f, const Real* sums, const Real* references) {
  using Kind = PreferenceLossKind;
  PairLoss out;
  out.counts = sums[1] > 0 && (f.kind == Kind::kKto || sums[3] > 0);
  if (!out.counts) return out;
  const PairNumbers<Real> p = pair_numbers(f, sums, references);
  if (f.kind == Kind::kKto) {
    set_kto_loss(f, p.chosen, sums[0], references[1], references[2] != 0, out);
    return out;
  }
  if (f.kind == Kind::kOrpo) {
    set_orpo_loss(f, p, sums[0], references[2], out);
  } else {
    const auto d = difference_loss(f, p.chosen - p.rejected, references[2]);
    out.loss = d.loss;
    out.d_chosen = d.slope / p.chosen_tokens;
    out.d_rejected = -d.slope / p.rejected_tokens;
  }
  const Real scale = f.kind == Kind::kReward ? 1 : f.beta;
  out.figures[0] = scale * p.chosen;
  out.figures[1] = scale * p.rejected;
  out.figures[2] = p.chosen > p.rejected ? 1 : 0;
  out.figures[3] = sums[0];
  out.figures[4] = sums[2];
  return out;
}

}  // namespace tessera::kernels
