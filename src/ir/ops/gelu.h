// The Gaussian error linear unit (Hendrycks & Gimpel 2016).
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

enum class GeluForm : uint8_t { kErf, kTanh };  // exact, or its approximation
constexpr const char* enum_names(GeluForm) { return "erf|tanh"; }

// y = u Φ(u) with u = x + bias
struct Gelu {
  static constexpr std::string_view kName = "gelu";
  enum In { kX, kBias };
  enum Out { kY };
  GeluForm form = GeluForm::kErf;
  bool bias = false;  // true if there is a bias
  static void fields(auto& self, auto&& visit) {
    visit("form", self.form, Print::kAlways);
    visit("bias", self.bias);
  }
  static void inputs(const Gelu& a, auto&& slot) {
    slot(kX, 1);
    slot(kBias, a.bias);
  }
  static const OpRule rule;
  bool operator==(const Gelu&) const = default;
};

struct GeluGrad {
  static constexpr std::string_view kName = "gelu_grad";
  enum In { kX, kBias, kDy };
  enum Out { kDx, kDBias };  // dbias += Σ_rows dx
  Gelu of = {};
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    Gelu::fields(self.of, visit);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const GeluGrad& a, auto&& slot) {
    slot(kX, 1);
    slot(kBias, a.of.bias);
    slot(kDy, 1);
  }
  static void outputs(const GeluGrad& a, auto&& slot) {
    slot(kDx, 1);
    slot(kDBias, a.of.bias);
  }
  static const OpRule rule;
  bool operator==(const GeluGrad&) const = default;
};

}  // namespace tessera
