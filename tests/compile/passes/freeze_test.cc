// Frozen weights are marked.
#include <gtest/gtest.h>

#include "compile/graph/name_patterns.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Freeze) {
  CompileRequest r = testing::tiny_request();
  r.frozen = {"embed.weight"};
  testing::expect_change("freeze", r);
}

// A pattern of many stars takes no longer than its length times that of the name.
TEST(Passes, FreezeMatchesPatterns) {
  for (const char* pattern :
       {"*", "layer*", "*.weight", "l*y*r*t", "layer.attn.qkv.weight", "**v**"})
    EXPECT_TRUE(matches(pattern, "layer.attn.qkv.weight")) << pattern;
  for (const char* pattern : {"", "layer", "*.bias", "l*z*t", "*weight.", "a*weight", "*ttt*"})
    EXPECT_FALSE(matches(pattern, "layer.attn.qkv.weight")) << pattern;
  EXPECT_FALSE(matches("a*a", "a"));
  EXPECT_FALSE(matches(std::string(40, '*') + "z", std::string(4000, 'a')));
  EXPECT_TRUE(matches("", ""));
}

}  // namespace tessera::compile
