#include "base/text_template.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::pair<std::string, std::string> around(const std::string& processor) {
  const Tree root = parse_json(R"({"post_processor": )" + processor + "}", "t.json");
  const TextTemplate t = read_text_template(root);
  return {t.begin, t.end};
}

std::string token(const std::string& name) {
  return R"({"SpecialToken": {"id": ")" + name + R"(", "type_id": 0}})";
}

constexpr const char* kText = R"({"Sequence": {"id": "A", "type_id": 0}})";

std::string single(const std::vector<std::string>& pieces) {
  std::string list;
  for (const std::string& p : pieces) list += (list.empty() ? "" : ", ") + p;
  return R"({"type": "TemplateProcessing", "single": [)" + list + "]}";
}

using Tokens = std::pair<std::string, std::string>;

TEST(TextTemplate, NamesTheTokensAroundAText) {
  EXPECT_EQ(around(single({token("<s>"), kText, token("</s>")})), Tokens("<s>", "</s>"));
  EXPECT_EQ(around(single({token("<s>"), kText})), Tokens("<s>", ""));
  EXPECT_EQ(around(single({kText, token("</s>")})), Tokens("", "</s>"));
  EXPECT_EQ(around(single({kText})), Tokens());
}

TEST(TextTemplate, MayStandAmongOtherProcessors) {
  const auto all = [](const std::string& processors) {
    return R"({"type": "Sequence", "processors": [)" + processors + "]}";
  };
  const std::string level = R"({"type": "ByteLevel", "trim_offsets": true})";
  const std::string ends = single({kText, token("</s>")}), begins = single({token("<s>"), kText});
  EXPECT_EQ(around(all(level + ", " + ends)), Tokens("", "</s>"));
  EXPECT_EQ(around(all(ends + ", " + level)), Tokens("", "</s>"));
  EXPECT_EQ(around(all(ends + ", " + begins)), Tokens("<s>", "</s>"));  // one around the other
  EXPECT_EQ(around(all(all(begins))), Tokens("<s>", ""));
  EXPECT_EQ(around(all("")), Tokens());
}

TEST(TextTemplate, IsNothingWhereThereIsNone) {
  for (const char* other : {"null", "3", "[]", "{}", R"({"single": 3})", R"({"single": []})",
                            R"({"single": [3, {"Sequence": 1}, "x"]})",
                            R"({"single": [{"SpecialToken": {"id": 7}}, {"Sequence": {}}]})"})
    EXPECT_EQ(around(other), Tokens()) << other;
  EXPECT_EQ(read_text_template(parse_json("[1]", "t.json")).begin, "");
  EXPECT_EQ(read_text_template(Tree()).begin, "");
}

}  // namespace
}  // namespace tessera
