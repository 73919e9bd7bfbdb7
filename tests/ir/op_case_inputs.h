// Inputs and outputs of sample ops.
#pragma once

#include <utility>

#include "ir/op.h"
#include "ir/state.h"
#include "tests/ir/op_cases.h"

namespace tessera::testing {

inline In x(Shape s, DType t = DType::kF32) { return {t, std::move(s)}; }
inline In weight(Shape s, DType t = DType::kF32) { return {t, std::move(s), Role::kWeight}; }
inline In ids(Shape s) { return {DType::kI32, std::move(s), Role::kBatch}; }
inline In samples() { return {DType::kI64, {2}, Role::kBatch}; }
inline In step() { return {DType::kF64, {kStepSize}, Role::kStep}; }
// What is known of rows and has no gradient.
inline In known(Shape s) { return {DType::kF32, std::move(s), Role::kBatch}; }
// Sums of answers and their references.
inline In answers() { return {DType::kF64, {2, 2, 2}}; }
inline In references() { return {DType::kF64, {2, 3}, Role::kBatch}; }
inline In report() { return {DType::kF64, {kReportSize}, Role::kReport}; }

inline constexpr DType kHalf = DType::kBF16;

// B = 2 sequences of T = 4 tokens, width 16 or K = 3 heads of G = 1 query and D = 5.
inline const Shape kQkv = {2, 4, 3, 3, 5}, kOut = {2, 4, 3, 5}, kLse = {2, 3, 4},
                   kPairs = {2, 3, 4, 4};

}  // namespace tessera::testing
