// Gated activations (Shazeer 2020). kernels/gated_activation.h has the formulas.
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// kErf and kTanh: the forms of gelu. kClamped: that of gpt-oss.
enum class GateForm : uint8_t { kSilu, kErf, kTanh, kClamped };
constexpr const char* enum_names(GateForm) { return "silu|erf|tanh|clamped"; }

// y[…, m] = act(x[…, m, 0]) · x[…, m, 1]: x has a gate and a value for each inner unit. kClamped
// limits both and adds 1 to the value.
struct GatedActivation {
  static constexpr std::string_view kName = "gated_activation";
  enum In { kX };
  enum Out { kY };
  GateForm form = GateForm::kSilu;
  static void fields(auto& self, auto&& visit) { visit("form", self.form, Print::kAlways); }
  static const OpRule rule;
  bool operator==(const GatedActivation&) const = default;
};

struct GatedActivationGrad {
  static constexpr std::string_view kName = "gated_activation_grad";
  enum In { kX, kDy };
  enum Out { kDx };
  GateForm form = GateForm::kSilu;
  static void fields(auto& self, auto&& visit) { visit("form", self.form, Print::kAlways); }
  static const OpRule rule;
  bool operator==(const GatedActivationGrad&) const = default;
};

}  // namespace tessera
