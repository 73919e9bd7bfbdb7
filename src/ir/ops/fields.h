// Definitions shared by the attribute structs of ops. Each op is a struct in a header of this
// folder:
//
//   struct Rotary {
//     static constexpr std::string_view kName = "rotary";  // in printed programs
//     enum In { kQkv, kPositions };                         // its inputs, in order
//     enum Out { kRotated };                                 // its outputs
//     int64_t dims = 0;                                     // its attributes
//     static void fields(auto& self, auto&& visit) { visit("dims", self.dims, Print::kAlways); }
//     static const OpRule rule;                             // ir/rule.h; defined in rotary.cc
//     bool operator==(const Rotary&) const = default;
//   };
//
// fields() lists the attributes once, in the order of the printed text: bool, int64_t, double,
// vector<double>, DType, optional<DType>, Shape, GroupRef, BufferKindId, or an enum with
// `constexpr const char* enum_names(E)` = "first|second|…". A number has its range as the fourth
// argument; verify() reports a number outside it.
//
// Where an op's inputs depend on its attributes, `inputs(attributes, slot)` calls slot(kBias, n)
// for each entry of In in order, where n is how many values it has: 0 or 1 (a bool), a count, or
// kRest for all that are left. `outputs(attributes, slot)` is the same for Out.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/range.h"

namespace tessera {

struct OpRule;

// When the text of an op has a field.
enum class Print : uint8_t {
  kUnlessDefault,
  kAlways,
  kNever,  // the parser derives it (ir/names.h)
};
constexpr Print always_if(bool condition) {
  return condition ? Print::kAlways : Print::kUnlessDefault;
}

// Ranges that attributes of several ops have. Operands of f32 arithmetic are at most kHuge.
inline constexpr Range kFinite = between(-kHuge, kHuge);
inline constexpr Range kNotNegative = between(0, kHuge);
inline constexpr Range kFraction = between(0, kBelowOne);  // probabilities, decays of means
inline constexpr Range kOperands = between(1, 1024);       // numbers of operands of one kind
inline constexpr Range kDimension = between(-1, 7);        // -1: kNone

// The number of values of a slot that holds all remaining operands.
inline constexpr int64_t kRest = -1;

}  // namespace tessera
