#include <gtest/gtest.h>

#include "ir/rule.h"
#include "runtime/bound_op.h"

namespace tessera::testing {
namespace {

// share is only another name for its input.
TEST(RunOp, EveryOpHasAKernelUnlessItCommunicates) {
  for (int k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    const OpRule& rule = rule_of(kind);
    const bool needs_kernel = rule.effects.wire == WireKind::kSilent && kind != kind_of<Share>();
    EXPECT_EQ(run_op(kind) != nullptr, needs_kernel) << name_of(kind);
  }
}

}  // namespace
}  // namespace tessera::testing
