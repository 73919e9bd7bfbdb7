// The GEMM with a weight, and its gradients. Weights have the dimension that is divided as a
// dimension of its own: qkv is [heads, 3, D, F].
#pragma once

#include <optional>

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// The format to which the first operand is quantized before the GEMM; the second one is quantized
// to e4m3. kStored: operands are multiplied in their own dtype.
enum class Fp8Format : uint8_t { kStored, kE4M3, kE5M2 };
constexpr const char* enum_names(Fp8Format) { return "stored|e4m3|e5m2"; }

inline constexpr Range kContracted = between(1, 6);  // labels of dimensions are "uvwxyz"

// y[…, m] = scale · Σ_k x[…, k] w[m, k]
struct Matmul {
  static constexpr std::string_view kName = "matmul";
  enum In { kX, kW };
  enum Out { kY };
  int64_t contract = 1;  // number of trailing dimensions that form k
  double scale = 1;
  std::optional<DType> out = std::nullopt;  // dtype of y; none: that of x
  Fp8Format fp8 = Fp8Format::kStored;
  static void fields(auto& self, auto&& visit) {
    visit("contract", self.contract, Print::kAlways, kContracted);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
    visit("out", self.out);
    visit("fp8", self.fp8);
  }
  static const OpRule rule;
  bool operator==(const Matmul&) const = default;
};

// dx[…, k] = scale · Σ_m dy[…, m] w[m, k]
struct MatmulGradInput {
  static constexpr std::string_view kName = "matmul_grad_input";
  enum In { kDy, kW };
  enum Out { kDx };
  int64_t contract = 1;
  double scale = 1;
  Fp8Format fp8 = Fp8Format::kStored;
  static void fields(auto& self, auto&& visit) {
    visit("contract", self.contract, Print::kAlways, kContracted);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
    visit("fp8", self.fp8);
  }
  static const OpRule rule;
  bool operator==(const MatmulGradInput&) const = default;
};

// dw[m, k] += scale · Σ_… dy[…, m] x[…, k]
struct MatmulGradWeight {
  static constexpr std::string_view kName = "matmul_grad_weight";
  enum In { kDy, kX };
  enum Out { kDw };
  int64_t contract = 1;
  double scale = 1;
  DType accum_dtype = DType::kF32;
  Fp8Format fp8 = Fp8Format::kStored;
  static void fields(auto& self, auto&& visit) {
    visit("contract", self.contract, Print::kAlways, kContracted);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
    visit("accum_dtype", self.accum_dtype);
    visit("fp8", self.fp8);
  }
  static const OpRule rule;
  bool operator==(const MatmulGradWeight&) const = default;
};

}  // namespace tessera
