#include "measure/coordinates.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"

namespace tessera::measure {
namespace {

// y = 3 · x^0.5 exactly; and the least-squares line through three points by hand.
TEST(Coordinates, GrowthExponent) {
  EXPECT_NEAR(growth_exponent({4, 16, 64}, {6, 12, 24}), 0.5, 1e-12);
  EXPECT_NEAR(growth_exponent({1, 2, 4}, {1, 1, 2}), 0.5, 1e-12);
  EXPECT_NEAR(growth_exponent({64, 128}, {2, 2}), 0, 1e-12);
}

TEST(Coordinates, AllWidthsGrowByOneFactor) {
  model::ModelConfig m;
  model::apply_family(model::Family::kLlama, m);
  m.hidden = 64;
  m.heads = 4;
  m.kv_heads = 2;
  m.feed_forward = 96;
  EXPECT_EQ(keys_of_width(m, 128),
            (std::vector<std::string>{"model.hidden=128", "model.head_width=16", "model.heads=8",
                                      "model.kv_heads=4", "model.feed_forward=192"}));
  EXPECT_EQ(keys_of_width(m, 32)[3], "model.kv_heads=1");
  EXPECT_THROW(keys_of_width(m, 16), Error);  // half a key/value head
}

}  // namespace
}  // namespace tessera::measure
