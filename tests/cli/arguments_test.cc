#include "cli/arguments.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

struct Line {
  std::string run, to, text = "none";
  std::vector<std::string> rest, more;
  int64_t n = 3;
  double x = 0.5;
  bool json = false;
};

// Parses, and returns the message of a usage error or "".
std::string parse(Line& l, const std::vector<std::string>& args) {
  Arguments a("verb", "Does it.", "tessera verb x");
  a.required(l.run, "RUN", "a run file");
  a.many(l.rest, "key=value", "keys");
  a.option(l.to, "--to", "DIR", "where to", true);
  a.option(l.text, "--text", "TEXT", "what");
  a.option(l.more, "--more", "FILE", "more");
  a.option(l.n, "--number", "N", "how many");
  a.option(l.x, "--share", "X", "how much");
  a.json(l.json);
  try {
    a.parse(args);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Arguments, ReadsAllKinds) {
  Line l;
  EXPECT_EQ(parse(l, {"r.yaml", "a.b=1", "--to", "f", "c=-2", "--number=7", "--share", "-1e-3",
                      "--json", "--more", "p", "d=3", "--more", "q"}),
            "");
  EXPECT_EQ(l.run, "r.yaml");
  EXPECT_EQ(l.rest, (std::vector<std::string>{"a.b=1", "c=-2", "d=3"}));
  EXPECT_EQ(l.more, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(l.to, "f");
  EXPECT_EQ(l.text, "none");
  EXPECT_EQ(l.n, 7);
  EXPECT_EQ(l.x, -1e-3);
  EXPECT_TRUE(l.json);
}

TEST(Arguments, SaysWhatIsWrong) {
  Line l;
  EXPECT_NE(parse(l, {"--to", "f"}).find("RUN is required"), std::string::npos);
  EXPECT_NE(parse(l, {"r"}).find("--to is required"), std::string::npos);
  EXPECT_NE(parse(l, {"r", "--to", "f", "--numbr", "3"}).find("Did you mean '--number'?"),
            std::string::npos);
  EXPECT_NE(parse(l, {"r", "--to", "f", "--number", "many"}).find("many"), std::string::npos);
  EXPECT_NE(parse(l, {"r", "--to"}).find("--to"), std::string::npos);
  EXPECT_NE(parse(l, {"r", "--to", ""}).find("--to is empty"), std::string::npos);
}

TEST(Arguments, E3_NumbersAreDecimalOrAnErrorThatNamesTheOption) {
  const auto number = [](const std::string& text) {
    Line l;
    EXPECT_EQ(parse(l, {"r", "--to", "f", "--number", text}), "") << text;
    return l.n;
  };
  EXPECT_EQ(number("060"), 60);
  EXPECT_EQ(number("-08"), -8);
  EXPECT_EQ(number("+7"), 7);
  EXPECT_EQ(number("9223372036854775807"), 9223372036854775807);
  for (const char* junk : {"0x10", "0b1", "1e3", "7.0", "7x", "", " 7", "1'000", "1_000", "+-1",
                           "9223372036854775808", "many"}) {
    Line l;
    const std::string said = parse(l, {"r", "--to", "f", "--number", junk});
    EXPECT_NE(said.find("--number = "), std::string::npos) << junk << ": " << said;
    EXPECT_NE(said.find("expected an integer (digits only)"), std::string::npos) << said;
    EXPECT_EQ(l.n, 3) << junk;
  }
  Line l;
  EXPECT_EQ(parse(l, {"r", "--to", "f", "--share", "010.5"}), "");
  EXPECT_EQ(l.x, 10.5);
  for (const char* junk : {"0x1p3", "nan", "inf", "0.5f", "half", ""}) {
    const std::string said = parse(l, {"r", "--to", "f", "--share", junk});
    EXPECT_NE(said.find("--share = "), std::string::npos) << junk << ": " << said;
    EXPECT_NE(said.find("expected a number"), std::string::npos) << said;
  }
}

TEST(Arguments, HelpShowsUsageDefaultsAndAnExample) {
  std::string run;
  int64_t n = 3;
  Arguments a("verb", "Does it.", "tessera verb x");
  a.required(run, "RUN", "a run file");
  a.option(n, "--number", "N", "how many");
  const std::string help = a.help();
  for (const char* part : {"Does it.", "Usage: tessera verb RUN",
                           "--number N  how many (default 3)", "Example:\n  tessera verb x"})
    EXPECT_NE(help.find(part), std::string::npos) << help;
}

// A negative default means that the option is not given, so the help must not print it.
TEST(Arguments, HelpOmitsNegativeDefaults) {
  int64_t n = -1, none = 0;
  Arguments a("verb", "Does it.", "tessera verb x");
  a.option(n, "--step", "N", "which step");
  a.option(none, "--limit", "N", "how many; 0: all");
  const std::string help = a.help();
  EXPECT_NE(help.find("--step N   which step\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--limit N  how many; 0: all (default 0)\n"), std::string::npos) << help;
}

}  // namespace
}  // namespace tessera::cli
