// Ops that run once per step on the report, gradients and packed weights. The optimizer's update is
// in update.h.
#pragma once

#include "ir/ops/matmul.h"
#include "ir/value.h"

namespace tessera {

// report = 0
struct Clear {
  static constexpr std::string_view kName = "clear";
  enum Out { kReport };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const Clear&) const = default;
};

// The GEMM that reads a packed weight.
enum class PackedProduct : uint8_t { kMatmul, kMatmulGradInput };
constexpr const char* enum_names(PackedProduct) { return "matmul|matmul_grad_input"; }

// A weight in the memory layout that one GEMM needs.
struct Pack {
  static constexpr std::string_view kName = "pack";
  enum In { kWeight };
  enum Out { kPacked };
  Matmul attributes = {};  // attributes of the GEMM
  PackedProduct product = PackedProduct::kMatmul;
  int64_t rows = 0;   // elements of the GEMM's first operand, on one rank
  int64_t bytes = 0;  // size of the packed weight
  static void fields(auto& self, auto&& visit) {
    Matmul::fields(self.attributes, visit);
    visit("product", self.product, Print::kAlways);
    visit("rows", self.rows, Print::kAlways, at_least(1));
    visit("bytes", self.bytes, Print::kAlways, at_least(1));
  }
  static const OpRule rule;
  bool operator==(const Pack&) const = default;
};

// report[squares] += Σ g²
struct Squares {
  static constexpr std::string_view kName = "squares";
  enum In { kGradient };
  enum Out { kReport };
  BufferKindId members = kNone;  // its table maps elements to weights
  static void fields(auto& self, auto&& visit) { visit("members", self.members); }
  static const OpRule rule;
  bool operator==(const Squares&) const = default;
};

// With n loss tokens and the loss scale s: norm = sqrt(squares) / (n s), scale = min(1, limit /
// norm) / (n s); skip = 1 if any of these is not finite.
struct Clip {
  static constexpr std::string_view kName = "clip";
  enum In { kReportIn, kStep };
  enum Out { kReport };
  double norm = 0;  // the limit
  static void fields(auto& self, auto&& visit) {
    visit("norm", self.norm, Print::kAlways, kNotNegative);
  }
  static const OpRule rule;
  bool operator==(const Clip&) const = default;
};

}  // namespace tessera
