// The experts of a layer in double precision, and problems for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/experts.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {

// Returns the experts of a token in rising order.
using Choice = std::function<std::vector<int64_t>(int64_t token)>;

struct Problem {
  int64_t n, h, i, e, k;
  DType t = DType::kF32;
  Array x, dy, up, down, weights, choice, up_bias;
  GateKind gate = GateKind::kSilu;
  bool biased = false;

  Problem(int64_t tokens, int64_t hidden, int64_t inner, int64_t experts, int64_t chosen,
          const Choice& choose, DType type = DType::kF32)
      : n(tokens), h(hidden), i(inner), e(experts), k(chosen), t(type) {
    x = Array::random({n, h}, 1, t);
    dy = Array::random({n, h}, 2, t);
    up = Array::random({e, i, 2, h}, 3, t, 0.5);
    down = Array::random({e, h, i}, 4, t, 0.5);
    weights = Array::random({n, k}, 5);
    choice = Array({n, k}, DType::kI32);
    for (int64_t token = 0; token < n; ++token)
      for (int64_t j = 0; j < k; ++j)
        choice.set(token * k + j, static_cast<double>(choose(token)[static_cast<size_t>(j)]));
    // In f32, some gates and values are beyond their limits; in 16 bits, rounding would decide
    // which.
    up_bias = Array::random({e, i, 2}, 6, t, t == DType::kF32 ? 8 : 3);
  }
  // As in gpt-oss.
  Problem clamped_and_biased() && {
    gate = GateKind::kClamped;
    biased = true;
    return std::move(*this);
  }
};

inline Choice spread(int64_t experts, int64_t chosen) {
  return [=](int64_t token) {
    std::vector<int64_t> out;
    const int64_t first = token * token * 7 % (experts - chosen + 1);
    for (int64_t j = 0; j < chosen; ++j) out.push_back(first + j);
    return out;
  };
}
inline Choice all_to(std::vector<int64_t> experts) {
  return [experts](int64_t) { return experts; };
}

using Numbers = std::vector<double>;

struct Gated {
  double y, by_gate, by_value;
};
inline Gated gated(GateKind kind, double gate, double value) {
  const bool clamped = kind == GateKind::kClamped;
  const double steep = clamped ? 1.702 : 1, g = clamped ? std::min(gate, 7.0) : gate;
  const double factor = clamped ? std::clamp(value, -7.0, 7.0) + 1 : value;
  const double s = 1 / (1 + std::exp(-steep * g)), slope = s + g * s * (1 - s) * steep;
  return {g * s * factor, clamped && gate > 7 ? 0 : slope * factor,
          clamped && std::abs(value) > 7 ? 0 : g * s};
}

// Computes in double, pair by pair, with the experts [first, last) only.
struct Reference {
  Numbers y, dx, dw, dup, ddown, pairs, dup_bias;

  Reference(const Problem& p, int64_t first, int64_t last)
      : y(size(p.n * p.h)),
        dx(size(p.n * p.h)),
        dw(size(p.n * p.k)),
        dup(size((last - first) * p.i * 2 * p.h)),
        ddown(size((last - first) * p.h * p.i)),
        pairs(size(p.n * p.k * p.i * 2)),
        dup_bias(size((last - first) * p.i * 2)) {
    for (int64_t row = 0; row < p.n * p.k; ++row) {
      const auto e = static_cast<int64_t>(p.choice.at(row));
      if (e >= first && e < last) add(p, row, e, first);
    }
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  void add(const Problem& p, int64_t row, int64_t e, int64_t first) {
    const int64_t token = row / p.k;
    const double w = p.weights.at(row);
    for (int64_t m = 0; m < p.i; ++m) {
      const auto bias = [&](int64_t part) {
        return p.biased ? p.up_bias.at((e * p.i + m) * 2 + part) : 0;
      };
      double gate = bias(0), value = bias(1), dh = 0;
      const int64_t pair = (e * p.i + m) * 2 * p.h;
      for (int64_t f = 0; f < p.h; ++f) {
        gate += p.x.at(token * p.h + f) * p.up.at(pair + f);
        value += p.x.at(token * p.h + f) * p.up.at(pair + p.h + f);
        dh += p.dy.at(token * p.h + f) * p.down.at((e * p.h + f) * p.i + m);
      }
      pairs[size((row * p.i + m) * 2)] = gate;
      pairs[size((row * p.i + m) * 2 + 1)] = value;
      const Gated gates = gated(p.gate, gate, value);
      const double h = gates.y;
      dw[size(row)] += h * dh;
      const double dgate = w * dh * gates.by_gate, dvalue = w * dh * gates.by_value;
      dup_bias[size(((e - first) * p.i + m) * 2)] += dgate;
      dup_bias[size(((e - first) * p.i + m) * 2 + 1)] += dvalue;
      for (int64_t f = 0; f < p.h; ++f) {
        const int64_t at = token * p.h + f, own = (pair - first * p.i * 2 * p.h) + f;
        y[size(at)] += w * h * p.down.at((e * p.h + f) * p.i + m);
        dx[size(at)] += dgate * p.up.at(pair + f) + dvalue * p.up.at(pair + p.h + f);
        dup[size(own)] += dgate * p.x.at(at);
        dup[size(own + p.h)] += dvalue * p.x.at(at);
        ddown[size(((e - first) * p.h + f) * p.i + m)] += w * h * p.dy.at(at);
      }
    }
  }
};

inline constexpr int64_t kGuard = 256;  // bytes after a workspace that must stay zero

}  // namespace tessera::kernels
