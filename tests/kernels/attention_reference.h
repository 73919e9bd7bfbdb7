// Causal attention and its gradient in double, element by element: with a window, a query sees the
// last keys up to its place; with a soft cap, scores are capped; with sinks, a head's rows have one
// more score without a value.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "kernels/attention.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {

struct AttentionSizes {
  int64_t b, t, kv, g, d;
  int64_t heads() const { return kv * g; }
  Shape qkv() const { return {b, t, kv, g + 2, d}; }
  Shape out() const { return {b, t, heads(), d}; }
  // Element of qkv: member g is the key, g + 1 the value.
  int64_t at(int64_t s, int64_t i, int64_t group, int64_t member, int64_t c) const {
    return (((s * t + i) * kv + group) * (g + 2) + member) * d + c;
  }
};

struct AttentionLimits {
  int64_t window = 0;
  double soft_cap = 0;
  std::vector<double> sinks = {};  // one per head; or none
};

struct AttentionAnswer {
  std::vector<double> out, lse, d_qkv, d_sinks;
  std::vector<double> scores, probabilities, d_probabilities, d_scores;  // [B, H, T, T]
};

inline double mask_of(const AttentionDropout& a, int64_t sample, int64_t head, int64_t t, int64_t i,
                      int64_t j) {
  const float p = a.dropout.probability;
  if (p == 0) return 1;
  const int64_t row = (t + 3) / 4 * 4;
  const auto e = static_cast<uint64_t>(((a.first_head + head) * t + i) * row + j);
  const auto number = static_cast<uint64_t>(a.samples.as<int64_t>()[sample]);
  const uint32_t word = Philox{a.dropout.key}.block(e / 4, number)[e % 4];
  return Philox::uniform(word) >= p ? 1 / (1 - static_cast<double>(p)) : 0;
}

inline void attend(const AttentionSizes& z, int64_t s, int64_t head, const Array& qkv,
                   const Array& d_out, double scale, const AttentionDropout& drop,
                   const AttentionLimits& limits, AttentionAnswer& a) {
  const int64_t kv = head / z.g, member = head % z.g;
  const auto q = [&](int64_t i, int64_t c) { return qkv.at(z.at(s, i, kv, member, c)); };
  const auto k = [&](int64_t i, int64_t c) { return qkv.at(z.at(s, i, kv, z.g, c)); };
  const auto v = [&](int64_t i, int64_t c) { return qkv.at(z.at(s, i, kv, z.g + 1, c)); };
  const auto add = [&](int64_t i, int64_t slot, int64_t c, double x) {
    a.d_qkv[static_cast<size_t>(z.at(s, i, kv, slot, c))] += x;
  };
  for (int64_t i = 0; i < z.t; ++i) {
    std::vector<double> x, p, dp;
    const double cap = limits.soft_cap;
    const int64_t first = limits.window > 0 ? std::max<int64_t>(0, i - limits.window + 1) : 0;
    const int64_t row = ((s * z.t + i) * z.heads() + head) * z.d;
    const auto square = static_cast<size_t>(((s * z.heads() + head) * z.t + i) * z.t);
    double sum = 0, delta = 0;
    for (int64_t j = 0; j <= i; ++j) {
      x.push_back(0);
      for (int64_t c = 0; c < z.d; ++c) x.back() += scale * q(i, c) * k(j, c);
      if (cap > 0) x.back() = cap * std::tanh(x.back() / cap);
      if (j < first) x.back() = -HUGE_VAL;
      sum += std::exp(x.back());
    }
    const auto own = static_cast<size_t>(head);
    const double sink = limits.sinks.empty() ? 0 : std::exp(limits.sinks[own]);
    sum += sink;
    a.lse[static_cast<size_t>((s * z.heads() + head) * z.t + i)] = std::log(sum);
    for (int64_t j = 0; j <= i; ++j) {
      const auto u = static_cast<size_t>(j);
      const double mask = mask_of(drop, s, head, z.t, i, j);
      p.push_back(std::exp(x[u]) / sum);
      dp.push_back(0);
      for (int64_t c = 0; c < z.d; ++c) {
        a.out[static_cast<size_t>(row + c)] += mask * p[u] * v(j, c);
        dp[u] += mask * d_out.at(row + c) * v(j, c);
        add(j, z.g + 1, c, mask * p[u] * d_out.at(row + c));
      }
      delta += p[u] * dp[u];
    }
    a.d_sinks[own] -= sink / sum * delta;
    for (int64_t j = 0; j <= i; ++j) {
      const auto u = static_cast<size_t>(j);
      const double share = cap > 0 && j >= first ? x[u] / cap : 0;
      const double d_capped = p[u] * (dp[u] - delta), ds = d_capped * (1 - share * share);
      a.scores[square + u] = x[u];
      a.probabilities[square + u] = p[u];
      a.d_probabilities[square + u] = dp[u];
      a.d_scores[square + u] = d_capped;
      for (int64_t c = 0; c < z.d; ++c) {
        add(i, member, c, scale * ds * k(j, c));
        add(j, z.g, c, scale * ds * q(i, c));
      }
    }
  }
}

inline AttentionAnswer attention_reference(const AttentionSizes& z, const Array& qkv,
                                           const Array& d_out, double scale,
                                           const AttentionDropout& drop = {},
                                           const AttentionLimits& limits = {}) {
  AttentionAnswer a;
  const auto heads = static_cast<size_t>(z.b * z.heads() * z.t);
  a.out.resize(static_cast<size_t>(z.out().elements()));
  a.d_qkv.resize(static_cast<size_t>(z.qkv().elements()));
  a.lse.resize(heads);
  a.d_sinks.resize(static_cast<size_t>(z.heads()));
  for (auto* v : {&a.scores, &a.probabilities, &a.d_probabilities, &a.d_scores}) {
    v->resize(heads * static_cast<size_t>(z.t));
  }
  for (int64_t s = 0; s < z.b; ++s) {
    for (int64_t h = 0; h < z.heads(); ++h) attend(z, s, h, qkv, d_out, scale, drop, limits, a);
  }
  return a;
}

}  // namespace tessera::kernels
