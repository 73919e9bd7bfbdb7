#include "base/utf8.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Printable, L12_EscapesWhatTerminalsActOn) {
  EXPECT_EQ(printable("\x1b]0;pwned\x07\x1b[2J"), "\\x1b]0;pwned\\x07\\x1b[2J");
  EXPECT_EQ(printable("a\rb\x7f\b"), "a\\x0db\\x7f\\x08");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
  EXPECT_EQ(printable("\u202eabc\u2066"), "\\u202eabc\\u2066");
  EXPECT_EQ(printable("a\xff\xc2"), "a\\xff\\xc2");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text :
       {"", "two\nlines\tand a tab", "caf\u00e9 \u6771 \U0001F600 \u00a0", "a\\x1b"})
    EXPECT_EQ(printable(text), text);
}

}  // namespace
}  // namespace tessera
