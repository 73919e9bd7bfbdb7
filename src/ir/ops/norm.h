// Normalization over the last axis, after an optional sum, and its gradient.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// Layer normalization (Ba et al. 2016):
//   x = Σ terms + Σ biases,  y = (x − mean) / sqrt(variance + epsilon) · gain + bias
struct Norm {
  static constexpr std::string_view kName = "norm";
  enum In { kTerms, kBiases, kGain, kBias };
  enum Out { kY, kStats, kSum };  // stats: mean and 1/std of each row, f32; sum: x
  double epsilon = 0;
  int64_t terms = 1, biases = 0;
  bool sums() const { return terms + biases > 1; }
  static void fields(auto& self, auto&& visit) {
    visit("epsilon", self.epsilon, Print::kAlways, kNotNegative);
    visit("terms", self.terms, always_if(self.sums()), kOperands);
    visit("biases", self.biases, always_if(self.sums()), between(0, kOperands.most));
  }
  static void inputs(const Norm& a, auto&& slot) {
    slot(kTerms, a.terms);
    slot(kBiases, a.biases);
    slot(kGain, 1);
    slot(kBias, 1);
  }
  static void outputs(const Norm& a, auto&& slot) {
    slot(kY, 1);
    slot(kStats, 1);
    slot(kSum, a.sums());
  }
  static const OpRule rule;
  bool operator==(const Norm&) const = default;
};

struct NormGrad {
  static constexpr std::string_view kName = "norm_grad";
  enum In { kX, kStats, kGain, kDy, kSoFar };
  enum Out { kDx, kDGain, kDBias };
  bool add = false;  // dx is added to a gradient of x, the last input
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("add", self.add);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const NormGrad& a, auto&& slot) {
    for (const In required : {kX, kStats, kGain, kDy}) slot(required, 1);
    slot(kSoFar, a.add);
  }
  static const OpRule rule;
  bool operator==(const NormGrad&) const = default;
};

// Normalization by the root mean square (Zhang & Sennrich 2019):
//   x = Σ terms + Σ biases,  y = x / sqrt(mean(x²) + epsilon) · (gain + 1 if unit_offset)
struct RmsNorm {
  static constexpr std::string_view kName = "rms_norm";
  enum In { kTerms, kBiases, kGain };
  enum Out { kY, kStats, kSum };  // stats: 0 and the factor of each row, f32; sum: x
  double epsilon = 0;
  bool unit_offset = false;
  int64_t terms = 1, biases = 0;
  bool sums() const { return terms + biases > 1; }
  static void fields(auto& self, auto&& visit) {
    visit("epsilon", self.epsilon, Print::kAlways, kNotNegative);
    visit("unit_offset", self.unit_offset);
    visit("terms", self.terms, always_if(self.sums()), kOperands);
    visit("biases", self.biases, always_if(self.sums()), between(0, kOperands.most));
  }
  static void inputs(const RmsNorm& a, auto&& slot) {
    slot(kTerms, a.terms);
    slot(kBiases, a.biases);
    slot(kGain, 1);
  }
  static void outputs(const RmsNorm& a, auto&& slot) {
    slot(kY, 1);
    slot(kStats, 1);
    slot(kSum, a.sums());
  }
  static const OpRule rule;
  bool operator==(const RmsNorm&) const = default;
};

struct RmsNormGrad {
  static constexpr std::string_view kName = "rms_norm_grad";
  enum In { kX, kStats, kGain, kDy, kSoFar };
  enum Out { kDx, kDGain };
  bool add = false;  // dx is added to a gradient of x, the last input
  bool unit_offset = false;
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("add", self.add);
    visit("unit_offset", self.unit_offset);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const RmsNormGrad& a, auto&& slot) {
    for (const In required : {kX, kStats, kGain, kDy}) slot(required, 1);
    slot(kSoFar, a.add);
  }
  static const OpRule rule;
  bool operator==(const RmsNormGrad&) const = default;
};

}  // namespace tessera
