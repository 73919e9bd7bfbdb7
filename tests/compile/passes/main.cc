// Runs the tests of the passes; with --write, replaces their texts.
#include <gtest/gtest.h>

#include <string_view>

#include "tests/compile/passes/pass_text.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--write") tessera::testing::writes_texts = true;
  return RUN_ALL_TESTS();
}
