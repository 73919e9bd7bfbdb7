#include "eval/task.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "eval/evaluate.h"

namespace tessera::eval {
namespace {

class TaskTest : public testing::Test {
 protected:
  TaskTest() { std::filesystem::create_directories(folder_); }
  ~TaskTest() override { std::filesystem::remove_all(folder_); }

  Path file(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  // The message of an Error.
  template <class F>
  std::string refused(const F& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was refused";
  }

  Path folder_ =
      std::filesystem::temp_directory_path() / ("tessera_task_test_" + std::to_string(::getpid()));
};

constexpr const char* kChoice =
    "kind: choice\ndata: d.jsonl\nform: \"Q: {query}\\nA: {response}\"\nresponse: \"{choices}\"\n"
    "gold: gold\n";

TEST_F(TaskTest, AListIsAnOptionEach) {
  const TaskSpec spec = read_task(file("t.yaml", kChoice));
  const auto examples =
      read_examples(spec, file("d.jsonl",
                               "{\"query\":\"one\",\"choices\":[\"a\",\"b\"],\"gold\":1}\n\n"
                               "{\"query\":\"two\",\"choices\":[\"c\",\"d\",\"e\"],\"gold\":0}\n"));
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].options[1].context, "Q: one\nA: ");
  EXPECT_EQ(examples[0].options[1].response, "b");
  EXPECT_EQ(examples[0].gold, 1);
  EXPECT_EQ(examples[1].options.size(), 3u);
  EXPECT_EQ(examples[1].line, 3);
}

TEST_F(TaskTest, BeginningsMayDifferInstead) {
  const TaskSpec spec = read_task(file("t.yaml",
                                       "kind: choice\ndata: d.jsonl\nform: \"{start} {response}\"\n"
                                       "response: \"{end}\"\ngold: gold\n"));
  const auto examples = read_examples(
      spec, file("d.jsonl", "{\"start\":[\"Ann\",\"Bob\"],\"end\":\"won\",\"gold\":0}\n"));
  EXPECT_EQ(examples[0].options[0].context, "Ann ");
  EXPECT_EQ(examples[0].options[1].context, "Bob ");
  EXPECT_EQ(examples[0].options[1].response, "won");
}

TEST_F(TaskTest, ShotsAreTheFirstOthers) {
  TaskSpec spec = read_task(file("t.yaml", kChoice));
  spec.shots = 1;
  const auto examples =
      read_examples(spec, file("d.jsonl",
                               "{\"query\":\"one\",\"choices\":[\"a\",\"b\"],\"gold\":1}\n"
                               "{\"query\":\"two\",\"choices\":[\"c\"],\"gold\":0}\n"));
  EXPECT_EQ(examples[0].options[0].context, "Q: two\nA: c\n\nQ: one\nA: ");
  EXPECT_EQ(examples[1].options[0].context, "Q: one\nA: b\n\nQ: two\nA: ");
}

TEST_F(TaskTest, BrokenFilesAreNamedWithTheLine) {
  const TaskSpec spec = read_task(file("t.yaml", kChoice));
  const auto error = [&](const std::string& line) {
    const Path data = file("d.jsonl", "{\"query\":\"q\",\"choices\":[\"a\"],\"gold\":0}\n" + line);
    return refused([&] { read_examples(spec, data); });
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  };
  EXPECT_TRUE(has(error("{\"query\":\"q\",\"gold\":0}\n"), "d.jsonl:2: there is no 'choices'"));
  EXPECT_TRUE(has(error("{\"query\":\"q\",\"choices\":[\"a\"],\"gold\":1}\n"),
                  "'gold' is 1, expected the index of an option, 0 to 0"));
  EXPECT_TRUE(has(error("{\"query\":\n"), "d.jsonl:2:10: this is not JSON"));
  EXPECT_TRUE(has(error("[1]\n"), "d.jsonl:2: expected one JSON object"));
  EXPECT_TRUE(has(error("{\"query\":[\"x\",\"y\"],\"choices\":[\"a\"],\"gold\":0}\n"),
                  "has 1 entries, but 'query' has 2"));
  EXPECT_TRUE(has(refused([&] { read_task(file("u.yaml", "kind: choice\nfrom: x\n")); }),
                  "Did you mean 'form'"));
  EXPECT_TRUE(has(refused([&] { read_task(file("u.yaml", "kind: choice\ndata: d\n")); }),
                  "requires 'form'"));
  EXPECT_TRUE(has(refused([&] {
                    read_task(file("u.yaml",
                                   "kind: last_word\ndata: d\nform: \"{x}\"\n"
                                   "response: \"{y}\"\n"));
                  }),
                  "no {response}"));
}

TEST_F(TaskTest, AnAnswerThatIsAnEmptyListIsRejected) {
  const TaskSpec spec = read_task(file("t.yaml",
                                       "kind: exact_match\ndata: d.jsonl\nform: \"{q}{response}\"\n"
                                       "response: \"{r}\"\nanswer: \"{a}\"\n"));
  const Path list = file("d.jsonl", "{\"q\":\"one\",\"r\":\"x\",\"a\":[\"1\",\"2\"]}\n");
  EXPECT_EQ(read_examples(spec, list)[0].answer, "1");
  const Path empty = file("d.jsonl", "\n{\"q\":\"one\",\"r\":\"x\",\"a\":[]}\n");
  const std::string message = refused([&] { read_examples(spec, empty); });
  for (const char* part : {"d.jsonl:2", "'a' has 0 entries, expected at least 1"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in " << message;
}

// Each option repeats the context: a line of 1 MB would otherwise take 100 GB.
TEST_F(TaskTest, TheTextsOfAllOptionsAreBounded) {
  const TaskSpec spec = read_task(file("t.yaml", kChoice));
  std::string choices = "\"a\"";
  for (int i = 1; i < 2000; ++i) choices += ",\"a\"";
  const Path data = file("d.jsonl", "{\"query\":\"" + std::string(500'000, 'q') +
                                        "\",\"choices\":[" + choices + "],\"gold\":1}\n");
  const std::string message = refused([&] { read_examples(spec, data); });
  for (const char* part : {"d.jsonl:1", "of 2000,", "100 times the size of the file"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in " << message;
}

TEST_F(TaskTest, MetricsOfChoices) {
  TaskSpec spec;
  spec.unconditional = " ";
  std::vector<Example> examples(2);
  examples[0].options = {{"", "ab"}, {"", "abcdefgh"}};
  examples[1].options = {{"", "ab"}, {"", "abcd"}};
  examples[1].gold = 1;
  std::vector<ExampleScore> scores(2);
  scores[0].log = {-2, -4};  // raw: 0, by length: 1, unconditional: 1
  scores[0].unconditional = {-1, -8};
  scores[1].log = {-3, -2};  // 1, 1, 0
  scores[1].unconditional = {-5, -2};
  const std::vector<Metric> m = metrics_of(spec, examples, scores);
  ASSERT_EQ(m.size(), 3u);
  EXPECT_EQ(m[0].value, 1);
  EXPECT_EQ(m[0].error, 0);
  EXPECT_EQ(m[1].value, 0.5);
  EXPECT_DOUBLE_EQ(m[1].error, 0.5);  // sqrt(0.5 / 2)
  EXPECT_EQ(m[2].value, 0);
}

TEST_F(TaskTest, MetricsOfLastWordsAndAnswers) {
  TaskSpec spec;
  spec.kind = TaskKind::kLastWord;
  const std::vector<Example> examples(2);
  std::vector<ExampleScore> scores(2);
  scores[0].log = {-1};
  scores[0].greedy = true;
  scores[1].log = {-3};
  const std::vector<Metric> m = metrics_of(spec, examples, scores);
  EXPECT_EQ(m[0].value, 0.5);
  EXPECT_DOUBLE_EQ(m[1].value, std::exp(2.0));
  EXPECT_DOUBLE_EQ(m[1].error, std::exp(2.0));  // the standard error of the mean is 1

  spec.kind = TaskKind::kExactMatch;
  spec.extract = "#### (-?[0-9.,]+)";
  spec.ignore = {",", "$"};
  EXPECT_EQ(extract_answer(spec, "so it is\n#### 1,234"), "1234");
  EXPECT_EQ(extract_answer(spec, "no answer"), "");
}

// std::regex recursed once per character and per bracket.
// A new user has no examples: the message names the file, its keys and the option for its folder.
TEST_F(TaskTest, MissingExamplesAreExplained) {
  const std::string task = file("t.yaml", kChoice).string();
  const auto why = [&](const std::string& data) {
    return refused([&] { read_tasks({{task}, data, -1, 0}); });
  };
  EXPECT_NE(why("").find((folder_ / "d.jsonl").string() + " does not exist"), std::string::npos)
      << why("");
  for (const char* part : {"choices, gold, query", "--data FOLDER", "elsewhere/d.jsonl"})
    EXPECT_NE(why("elsewhere").find(part), std::string::npos) << why("elsewhere");
}

TEST(AnswerPattern, L4_LengthsAreBoundedAndNothingRecurses) {
  EXPECT_EQ(AnswerPattern("(a|b)*c").find(std::string(1'000'000, 'a') + "c"), "a");
  EXPECT_EQ(AnswerPattern("(a*)*b").find(std::string(1'000'000, 'a')), "");
  EXPECT_EQ(AnswerPattern(std::string(2000, '(') + "a" + std::string(2000, ')')).find("xa"), "a");
  for (const std::string& wrong :
       {std::string(100'000, '('), std::string(2000, '('), std::string("(a"), std::string("(?=a)"),
        std::string("\\1"), std::string("((a{1000}){1000}){1000}"), std::string("[z-a]")})
    EXPECT_THROW(AnswerPattern{wrong}, Error) << wrong.substr(0, 30);
}

TEST(AnswerPattern, GivesTheFirstGroupOrTheMatch) {
  EXPECT_EQ(AnswerPattern("[0-9]+").find("ab 12 34"), "12");
  EXPECT_EQ(AnswerPattern("x([0-9]*)").find("x"), "");
  EXPECT_EQ(AnswerPattern("(b)?a").find("a"), "");
  EXPECT_EQ(AnswerPattern("b").find("a"), "");
}

}  // namespace
}  // namespace tessera::eval
