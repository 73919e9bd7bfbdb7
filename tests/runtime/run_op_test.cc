#include <gtest/gtest.h>

#include "ir/rule.h"
#include "runtime/bound_op.h"

namespace tessera::testing {
namespace {

// share is only another name for its input.
TEST(RunOp, EveryOpHasAKernelUnlessItCommunicates) {
  for (int k = 0; k < static_cast<int>(OpKind::kCount); ++k) {
    const auto kind = static_cast<OpKind>(k);
    const OpRule& rule = rule_of(kind);
    const bool needs_kernel = rule.effects.wire == WireKind::kSilent && kind != OpKind::kShare;
    EXPECT_EQ(run_op(kind) != nullptr, needs_kernel) << rule.name;
  }
}

}  // namespace
}  // namespace tessera::testing
