#include "base/tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"

namespace tessera {
namespace {

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

int64_t whole(const Tree* t) { return std::get<int64_t>(t->value); }

TEST(Json, ReadsEveryKindWithItsPlace) {
  const Tree t = parse_json(
      "{\"a\": [1, -2.5, true],\n  \"b\": {\"c\": null, \"d\": \"x\\n\"},\n\"e\":7}", "t.json");
  EXPECT_EQ(whole(&t.find("a")->as_list()->at(0)), 1);
  EXPECT_EQ(std::get<double>(t.find("a")->as_list()->at(1).value), -2.5);
  EXPECT_TRUE(std::get<bool>(t.find("a")->as_list()->at(2).value));
  const Tree* b = t.find("b");
  EXPECT_EQ(b->key_line, 2);
  EXPECT_EQ(b->key_column, 3);
  EXPECT_EQ(b->column, 8);
  EXPECT_TRUE(b->find("c")->is_null());
  EXPECT_EQ(*b->find("d")->as_string(), "x\n");
  EXPECT_EQ(t.find("e")->line, 3);
  EXPECT_EQ(t.find("e")->column, 5);
  EXPECT_EQ(t.find("a")->as_list()->at(1).column, 11);
}

TEST(Json, IntegersBeyondInt64BecomeDoubles) {
  const Tree t =
      parse_json("[9223372036854775807, 9223372036854775808, -9223372036854775809]", "t");
  EXPECT_EQ(whole(&t.as_list()->at(0)), INT64_MAX);
  EXPECT_EQ(std::get<double>(t.as_list()->at(1).value), 0x1p63);
  EXPECT_EQ(std::get<double>(t.as_list()->at(2).value), -0x1p63);
}

TEST(Json, BrokenInputsNameThePlace) {
  const auto fails = [](const std::string& text) {
    return error_of([&] { parse_json(text, "t.json"); });
  };
  EXPECT_NE(fails("{\"a\":1,\n \"a\":2}").find("t.json:2:2: duplicate key 'a'"), std::string::npos);
  EXPECT_NE(fails("{\"a\":\n  x}").find("t.json:2:3: this is not JSON"), std::string::npos);
  EXPECT_NE(fails("{\"a\":1").find("t.json:1:7: this is not JSON"), std::string::npos);
  EXPECT_NE(fails(std::string(300, '[')).find("t.json:1:257: nested"), std::string::npos);
  for (const char* text : {"", "nul", "[1,]", "[1] 2", "\"\xff\"", "\"abc", "{1:2}", "[1e999]",
                           "01", "\"\\ud800\"", "[\"a\x01\"]", "{\"a\"}", "\xef\xbb\xbf", " "})
    EXPECT_NE(fails(text), "no error") << text;
}

TEST(Json, LinesAreDocumentsWithTheirOwnPlaces) {
  const std::vector<Tree> lines = parse_json_lines("{\"a\":1}\n \r\n\n  [2]\r\n3", "t.jsonl");
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[1].line, 4);
  EXPECT_EQ(lines[1].column, 3);
  EXPECT_EQ(lines[2].line, 5);
  EXPECT_EQ(whole(&lines[2]), 3);
  EXPECT_TRUE(parse_json_lines("", "t.jsonl").empty());
  const std::string error = error_of([] { parse_json_lines("1\n\n{\"a\": x}\n", "t.jsonl"); });
  EXPECT_TRUE(error.starts_with("t.jsonl:3:7: this is not JSON")) << error;
  EXPECT_TRUE(error_of([] {
                parse_json("{\"a\":1,\"a\":2}", "t.jsonl", 7);
              }).starts_with("t.jsonl:7:8: duplicate key 'a'"));
}

TEST(Json, WritesWhatItReads) {
  const std::string text =
      R"({"a":[1,2.5,1e-08,3.0,true,null],"b":{"c":"\"\\\n\u0001é"},"d":[],"e":{}})";
  EXPECT_EQ(to_json(parse_json(text, "t")), text);
  EXPECT_EQ(to_json(Tree(std::nan(""))), "null");
  EXPECT_EQ(to_json(Tree(std::string("a\xff\xc3"))), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(to_json(parse_json("{\"a\":[1]}", "t"), 2), "{\n  \"a\": [\n    1\n  ]\n}");
  for (const double x : {0.1, 1e300, -4.9e-324, 1.0 / 3})
    EXPECT_EQ(std::get<double>(parse_json(to_json(Tree(x)), "t").value), x);
}

TEST(Yaml, ScalarsKeepTheirKind) {
  const Tree t = parse_yaml(
      "a: 12\nb: 1e-3\nc: 1.0e-3\nd: '12'\ne: true\nf:\ng: ~\nh: 1_000\ni: yes\nj: 0x10\n"
      "k: 99999999999999999999\nl: 1,000\nm: -7\nn: \"null\"\no: .5\np: 1e999\n",
      "t.yaml");
  EXPECT_EQ(whole(t.find("a")), 12);
  EXPECT_EQ(std::get<double>(t.find("b")->value), 1e-3);
  EXPECT_EQ(std::get<double>(t.find("c")->value), 1e-3);
  EXPECT_EQ(*t.find("d")->as_string(), "12");
  EXPECT_TRUE(std::get<bool>(t.find("e")->value));
  EXPECT_TRUE(t.find("f")->is_null());
  EXPECT_TRUE(t.find("g")->is_null());
  for (const char* key : {"h", "i", "j", "l", "n", "p"})
    EXPECT_NE(t.find(key)->as_string(), nullptr) << key;
  EXPECT_EQ(std::get<double>(t.find("k")->value), 1e20);
  EXPECT_EQ(whole(t.find("m")), -7);
  EXPECT_EQ(std::get<double>(t.find("o")->value), 0.5);
}

TEST(Yaml, KnowsPlaces) {
  const Tree t = parse_yaml("run: { name: x, seed: 7 }\ndata:\n  train: [a, {prefix: b}]\n", "t");
  EXPECT_EQ(t.find("run")->find("seed")->key_column, 17);
  EXPECT_EQ(t.find("run")->find("seed")->column, 23);
  EXPECT_EQ(t.find("data")->find("train")->key_line, 3);
  const Tree& second = t.find("data")->find("train")->as_list()->at(1);
  EXPECT_EQ(second.column, 14);
  EXPECT_EQ(second.key_line, 0);
  EXPECT_EQ(second.find("prefix")->column, 23);
}

// Characters of two, three and four bytes before the place, and a byte order mark before all.
TEST(Tree, ColumnsCountCharacters) {
  for (const std::string bom : {"", "\xef\xbb\xbf"}) {
    const Tree json = parse_json(bom + "{\"é\": \"日本\", \"😀\": [\"é\", 7]}", "t");
    EXPECT_EQ(json.column, 1);
    EXPECT_EQ(json.find("é")->key_column, 2);
    EXPECT_EQ(json.find("é")->column, 7);
    EXPECT_EQ(json.find("😀")->key_column, 13);
    EXPECT_EQ(json.find("😀")->as_list()->at(1).column, 24);
    const Tree yaml = parse_yaml(bom + "é: { 日本: 😀, b: 7 }\n# ü\nc: [é, 8]\n", "t");
    EXPECT_EQ(yaml.find("é")->key_column, 1);
    EXPECT_EQ(yaml.find("é")->column, 4);
    EXPECT_EQ(yaml.find("é")->find("日本")->column, 10);
    EXPECT_EQ(yaml.find("é")->find("b")->key_column, 13);
    EXPECT_EQ(yaml.find("c")->as_list()->at(1).column, 8);
    EXPECT_EQ(yaml.find("c")->as_list()->at(1).line, 3);
    const Tree block = parse_yaml(bom + "a:\n  - é\n  - {é: 1}\nb: 日\n", "t");
    EXPECT_EQ(block.find("a")->as_list()->at(1).find("é")->column, 9);
    EXPECT_EQ(block.find("b")->column, 4);
    const auto fails = [&](auto parse, const std::string& text) {
      const std::string said = error_of([&] { parse(bom + text); });
      return said.substr(0, said.find(": "));
    };
    const auto of_json = [](const std::string& s) { parse_json(s, "t"); };
    const auto of_yaml = [](const std::string& s) { parse_yaml(s, "t"); };
    EXPECT_EQ(fails(of_json, "{\"é日😀\": x}"), "t:1:9");
    EXPECT_EQ(fails(of_yaml, "é日😀: 'ü"), "t:1:8");
    EXPECT_EQ(fails(of_yaml, "{é: 1, é: 2}"), "t:1:8");
    EXPECT_EQ(fails(of_yaml, "é: 日\xff"), "t:1:5");
  }
}

// YAML 1.1, which PyYAML reads, has no numbers without a point.
TEST(Yaml, AnExponentFollowsAPoint) {
  for (const auto& [value, text] : std::map<double, std::string>{
           {1e-8, "1.0e-08"}, {-3e-5, "-3.0e-05"}, {2.5e-7, "2.5e-07"}, {1e20, "1.0e+20"}}) {
    EXPECT_EQ(to_yaml(Tree(value)), text + "\n");
    EXPECT_EQ(std::get<double>(parse_yaml(text, "t").value), value);
  }
}

// Found by fuzzing. In the library \_ and \N are bytes of Latin-1.
TEST(Yaml, EscapesGiveUtf8) {
  const Tree t = parse_yaml(R"({a: "x\_y\N", "k\_": 1, b: "é\_\xa0\u00a0", c: "\L\P\e"})", "t");
  EXPECT_EQ(*t.find("a")->as_string(), "x\u00a0y\u0085");
  EXPECT_NE(t.find("k\u00a0"), nullptr);
  EXPECT_EQ(*t.find("b")->as_string(), "é\u00a0\u00a0\u00a0");
  EXPECT_EQ(*t.find("c")->as_string(), "\u2028\u2029\x1b");
  EXPECT_EQ(to_yaml(parse_yaml(to_yaml(t), "t")), to_yaml(t));
}

// Found by fuzzing: the library takes the end of the file for the end of the text.
TEST(Yaml, AQuotedTextMustEnd) {
  for (const char* quote : {"\"", "'"})
    for (const char* last : {"", "\n", "\n\n", "\n  ", "\n\t", "\r", "\r\n", "\n# c\n", "\\\n"}) {
      const std::string text = std::string("a: 1\nb: ") + quote + "x" + last;
      EXPECT_NE(error_of([&] { parse_yaml(text, "t.yaml"); }).find("this is not YAML"),
                std::string::npos)
          << text;
    }
  EXPECT_EQ(error_of([] { parse_yaml("a: 1\nb: 'x\n", "t.yaml"); }),
            "t.yaml:3:1: this is not YAML: a quoted text has no end");
  EXPECT_NE(error_of([] { parse_yaml("b: 'x\n...\n'", "t.yaml"); }).find("t.yaml:2:1: "),
            std::string::npos);
  for (const char* whole :
       {"b: |+\n  x\n\n", "b: |+\n  x\n", "b: >\n  x\n", "b: x\n...\n", "b: x\n "})
    EXPECT_TRUE(parse_yaml(whole, "t").find("b")->as_string()->starts_with("x")) << whole;
  EXPECT_EQ(*parse_yaml("b: |+\n  x\n\n", "t").find("b")->as_string(), "x\n\n");
  EXPECT_EQ(*parse_yaml("b: |+\n  x", "t").find("b")->as_string(), "x");
}

TEST(Yaml, BrokenInputsNameThePlace) {
  const auto fails = [](const std::string& text) {
    return error_of([&] { parse_yaml(text, "t.yaml"); });
  };
  EXPECT_NE(fails("a: 1\nb: 2\na: 3\n").find("t.yaml:3:1: duplicate key 'a'"), std::string::npos);
  EXPECT_NE(fails("a: [1, 2\nb: 3\n").find("t.yaml:"), std::string::npos);
  EXPECT_NE(fails("a: &x 1\nb: *x\n").find("t.yaml:2:4: aliases"), std::string::npos);
  EXPECT_EQ(fails("a: 1\nb: [x, *.attn.*]\n"),
            "t.yaml:2:8: this is not YAML: write a text that begins with '*' in quotes, such as "
            "\"*.attn.*\"");
  EXPECT_NE(fails("a: @x\n").find("begins with '@'"), std::string::npos);
  EXPECT_NE(fails("a: 1\n---\nb: 1\n").find("second document"), std::string::npos);
  EXPECT_NE(fails("? [a, b]\n: 1\n").find("t.yaml:1:3: a key must be a plain name"),
            std::string::npos);
  EXPECT_EQ(fails("a: é\nb: \xff"), "t.yaml:2:4: found byte 0xff, expected text in UTF-8");
  EXPECT_NE(fails("a: !!int 3\n").find("t.yaml:1:4: the tag"), std::string::npos);
  for (const std::string& text :
       {std::string("a: 'x"), std::string("a:\n\t- 1"), std::string("- a\nb: 1"),
        std::string(400, '['), std::string("{a: 1"), std::string("a: b: c"), std::string("a: @x")})
    EXPECT_NE(fails(text), "no error") << text;
}

// Each key is compared with a set, not with all keys before it.
TEST(Yaml, L7_ManyKeysTakeTimeInProportion) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(parse_yaml(text, "t").as_members()->size(), 100'000u);
  const std::string why = error_of([&] { parse_yaml("key7: 1\nkey77: 1\nkey7: 2\n", "t"); });
  EXPECT_NE(why.find("t:3:1: duplicate key 'key7'"), std::string::npos) << why;
}

TEST(Yaml, WritesWhatItReads) {
  const std::string text =
      "a: 1\nb: 0.001\nc: \"1\"\nd: [x, \"y z\", 3]\ne:\n  f: true\n  g: null\nh:\n  - prefix: p\n"
      "    weight: 0.5\n  - [1]\ni: []\nj: \"\"\nk: 1f1b\n";
  EXPECT_EQ(to_yaml(parse_yaml(text, "t")), text);
  for (const char* s : {"true", "null", "1e5", "-", "a: b", "#x", "~", "é", "a\nb", " a", "1.5"}) {
    Tree t;
    t.set("k", Tree(std::string(s)));
    const Tree back = parse_yaml(to_yaml(t), "t");
    ASSERT_NE(back.find("k")->as_string(), nullptr) << s;
    EXPECT_EQ(*back.find("k")->as_string(), s);
  }
}

}  // namespace
}  // namespace tessera
