// Sums, and the gradient of a bias.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y = Σ terms + Σ biases: terms have the shape of y, biases its trailing dimensions.
struct Sum {
  static constexpr std::string_view kName = "sum";
  enum In { kTerms, kBiases };
  enum Out { kY };
  int64_t terms = 1;
  bool of_gradients = false;  // the terms are gradients of one value, from several of its uses
  static void fields(auto& self, auto&& visit) {
    visit("terms", self.terms, Print::kAlways, kOperands);
    visit("of_gradients", self.of_gradients, Print::kNever);
  }
  static void inputs(const Sum& a, auto&& slot) {
    slot(kTerms, a.terms);
    slot(kBiases, kRest);
  }
  static const OpRule rule;
  bool operator==(const Sum&) const = default;
};

// db[f] += Σ_rows dy[…, f]
struct BiasGrad {
  static constexpr std::string_view kName = "bias_grad";
  enum In { kDy };
  enum Out { kDBiases };
  int64_t dims = 1, count = 1;  // number of trailing dimensions of a bias; number of biases
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("dims", self.dims, Print::kAlways, at_least(1));
    visit("count", self.count, Print::kAlways, kOperands);
    visit("accum_dtype", self.accum_dtype);
  }
  static const OpRule rule;
  bool operator==(const BiasGrad&) const = default;
};

}  // namespace tessera
