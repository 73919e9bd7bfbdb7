// Two processes use one run directory or one prefix of a dataset: only one at a time writes.
#include <algorithm>

#include "tests/cli/held_program.h"

namespace tessera {
namespace {

class Defects : public TinyRun {};

TEST_F(Defects, H3_OfTwoStartsAlwaysOneTrains) {
  put("two.sh",
      fmt::format("train() {{ exec {} train run.yaml schedule.steps=1000000 "
                  "metrics.tensorboard=false; }}\n"
                  "train >a.txt 2>&1 & a=$!; train >b.txt 2>&1 & b=$!\n"
                  "wait -n $a $b; echo ended $?\n"
                  "until grep -q loss run/metrics.jsonl 2>/dev/null; do sleep 0.05; done\n"
                  "kill -TERM $a $b 2>/dev/null\n"
                  "wait $a; echo $?; wait $b; echo $?\n",
                  tessera_program()));
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    fs::remove_all(folder_ / "run");
    ASSERT_EQ(
        std::system(
            fmt::format("cd {}; timeout 60 bash two.sh >codes.txt", folder_.string()).c_str()),
        0);
    const std::string codes = get("codes.txt");
    EXPECT_TRUE(codes == "ended 1\n1\n0\n" || codes == "ended 1\n0\n1\n")
        << codes << get("a.txt") << get("b.txt");
    expect_in(get("a.txt") + get("b.txt"), {"has owned it since"});
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
    ASSERT_EQ(run(fmt::format("data build --force --tokenizer t.json --out x {}", text)).code, 0);
    alone[get("x.bin")] = get("x.idx") + get("x.json");
  }
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    const auto line = [&](const char* text) {
      return fmt::format("cd {}; {} data build --force --tokenizer t.json --out x {} 2>&1",
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
