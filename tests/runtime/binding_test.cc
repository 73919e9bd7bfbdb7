#include <gtest/gtest.h>

#include "ir/rule.h"
#include "runtime/binding.h"

namespace tessera::testing {
namespace {

// The output of share is only another name for its input.
TEST(Binding, EveryOpRunsUnlessItCommunicates) {
  for (int k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    const runtime::Binding& binding = runtime::binding_of(kind);
    const bool communicates = rule_of(kind).effects.comm != CommKind::kSilent;
    EXPECT_EQ(binding.start != nullptr, communicates) << name_of(kind);
    EXPECT_EQ(binding.run != nullptr, !communicates && kind != kind_of<MarkShared>())
        << name_of(kind);
  }
}

}  // namespace
}  // namespace tessera::testing
