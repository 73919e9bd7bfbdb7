// Of two processes on one run directory, or on one prefix of a dataset, one at a time writes.
#include <algorithm>

#include "tests/cli/held_program.h"

namespace tessera {
namespace {

class Defects : public TinyRun {};

TEST_F(Defects, H3_OfTwoStartsAlwaysOneTrains) {
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    fs::remove_all(folder_ / "run");
    // Long enough that the second one cannot follow the first.
    const std::string line = fmt::format(
        "cd {}; timeout -s TERM 1.2 {} train run.yaml schedule.steps=1000000 "
        "metrics.tensorboard=false 2>&1",
        folder_.string(), tessera_program());
    Held a(line), b(line);
    const int first = a.wait(), second = b.wait();
    // `timeout` ends with 124 after it has stopped one that trained.
    EXPECT_EQ(std::min(first, second), 1);
    EXPECT_EQ(std::max(first, second), 124);
    EXPECT_EQ(run("checkpoint verify run").code, 0);
    const std::vector<int64_t> all = steps("run/metrics.jsonl");
    EXPECT_EQ(all, range(1, std::ssize(all)));
  }
}

TEST_F(Defects, M7_OfTwoBuildsOfAPrefixASetIsNeverMixed) {
  std::string a, b;
  for (int i = 0; i < 3000; ++i) a += "aaaa aaaa aaaa aaaa\n";
  for (int i = 0; i < 7000; ++i) b += "bb bb bb bb bb\n";
  put("one.txt", a);
  put("two.txt", b);
  std::map<std::string, std::string> alone;
  for (const char* text : {"one.txt", "two.txt"}) {
    ASSERT_EQ(run(fmt::format("data build --tokenizer t.json --out x {}", text)).code, 0);
    alone[get("x.bin")] = get("x.idx") + get("x.json");
  }
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    const auto line = [&](const char* text) {
      return fmt::format("cd {}; {} data build --tokenizer t.json --out x {} 2>&1",
                         folder_.string(), tessera_program(), text);
    };
    Held first(line("one.txt")), second(line("two.txt"));
    const int c1 = first.wait(), c2 = second.wait();
    EXPECT_TRUE(c1 == 0 || c2 == 0);
    EXPECT_LE(std::max(c1, c2), 1);
    EXPECT_TRUE(alone.contains(get("x.bin")));
    EXPECT_EQ(alone[get("x.bin")], get("x.idx") + get("x.json"));
    EXPECT_FALSE(fs::exists(folder_ / "x.lock"));
  }
  EXPECT_EQ(names("").count("x.bin"), 1u);
}

}  // namespace
}  // namespace tessera
