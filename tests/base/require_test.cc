#include "base/require.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(RequireDeathTest, NamesTheCallersPlaceAndTheText) {
  require(true, "nothing is printed");
  EXPECT_DEATH(require(false, "rows of 7 elements"),
               "internal error at .*require_test.cc:[0-9]+: rows of 7 elements");
}

}  // namespace
}  // namespace tessera
