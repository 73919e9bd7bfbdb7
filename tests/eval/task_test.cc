#include "eval/task.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "eval/evaluate.h"
#include "eval/task_names.h"

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
  const auto why = [&](const std::string& name, const std::string& data) {
    return refused([&] { read_tasks({{name}, data, -1, 0}); });
  };
  const auto expect_parts = [](const std::string& text, std::initializer_list<std::string> parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
  };
  expect_parts(why(task, ""), {folder_.string(), "d.jsonl", "data/eval", "choices, gold, query",
                               "--data DIR", "$TESSERA_EVAL_DATA"});
  expect_parts(why(task, "elsewhere"), {"in elsewhere, " + folder_.string() + "."});
  expect_parts(why("piqa", "elsewhere"), {"in elsewhere."});
  expect_parts(why("openbook_qa", folder_.string()),
               {"openbookqa.jsonl, openbook_qa.jsonl, openbook_qa.parquet, openbookqa.parquet in",
                "load_dataset('allenai/openbookqa', 'main', split='test').to_json('" +
                    (folder_ / "openbookqa.jsonl").string() + "')"});
}

TEST_F(TaskTest, NamesAndAliasesOfTasks) {
  EXPECT_EQ(find_task("siqa").name, "social_iqa");
  EXPECT_EQ(find_task("lambada").name, "lambada_openai");
  EXPECT_EQ(find_task("mmlu_anatomy").subset, "anatomy");
  EXPECT_EQ(find_task("mmlu_anatomy").name, "mmlu_anatomy");
  EXPECT_EQ(find_task("mmlu").subset, "");
  EXPECT_NE(refused([] { find_task("helaswag"); }).find("Did you mean 'hellaswag'?"),
            std::string::npos);
  std::set<std::string> names;
  for (const KnownTask& t : known_tasks()) {
    EXPECT_TRUE(names.insert(t.name).second);
    for (const std::string& alias : t.spec.aliases) EXPECT_TRUE(names.insert(alias).second);
    EXPECT_FALSE(t.spec.about.empty()) << t.name;
    EXPECT_FALSE(t.spec.dataset.empty()) << t.name;
  }
}

// The first option of the first example of a task by name, of one line of the published dataset.
Example published(const Path& data, const std::string& name, const std::string& line) {
  const FoundTask found = find_task(name);
  write_file(data, line + "\n");
  return read_examples(parse_task(found), data).at(0);
}

// The expected texts are what lm-evaluation-harness 0.4.13 makes of the same lines with its own
// definitions.
TEST_F(TaskTest, PublishedLinesBecomeThePromptsOfTheHarness) {
  const Path data = folder_ / "line.jsonl";
  Example e = published(data, "arc_easy",
                        R"({"question":"Why?","choices":{"text":["a","b","c"],"label":["1","2",)"
                        R"("3"]},"answerKey":"2"})");
  EXPECT_EQ(e.options[0].context, "Question: Why?\nAnswer: ");
  EXPECT_EQ(e.options[2].response, "c");
  EXPECT_EQ(e.gold, 1);
  e = published(data, "boolq", R"({"passage":"P.","question":"is it so","label":1})");
  EXPECT_EQ(e.options[1].context + e.options[1].response, "P.\nQuestion: is it so?\nAnswer: yes");
  EXPECT_EQ(e.gold, 1);
  e = published(data, "copa",
                R"({"premise":"It rained. ","choice1":"The road was wet.","choice2":"He left.",)"
                R"("question":"effect","label":0})");
  EXPECT_EQ(e.options[0].context + e.options[0].response, "It rained therefore  the road was wet.");
  e = published(data, "piqa", R"({"goal":"Open it","sol1":"Pull.","sol2":"Push.","label":1})");
  EXPECT_EQ(e.options[1].context + e.options[1].response, "Question: Open it\nAnswer: Push.");
  e = published(data, "openbookqa",
                R"({"question_stem":"Ice is","choices":{"text":["hot","cold"],"label":["A","B"]},)"
                R"("answerKey":" B"})");
  EXPECT_EQ(e.options[1].context + e.options[1].response, "Ice is cold");
  EXPECT_EQ(e.gold, 1);
  e = published(data, "social_iqa",
                R"({"context":"Ann fell.","question":"How is she?","answerA":"hurt",)"
                R"("answerB":"glad","answerC":"late","label":"1"})");
  EXPECT_EQ(e.options[0].context + e.options[0].response, "Q: Ann fell. How is she?\nA: hurt");
  EXPECT_EQ(e.gold, 0);
  e = published(data, "winogrande",
                R"({"sentence":"Ann met Bea as _ was late.","option1":"Ann","option2":"Bea",)"
                R"("answer":"2"})");
  EXPECT_EQ(e.options[1].context + e.options[1].response, "Ann met Bea as Bea was late.");
  EXPECT_EQ(e.options[1].response, "was late.");
  EXPECT_EQ(e.gold, 1);
  e = published(data, "lambada_openai", R"({"text":"He opened the \n red door"})");
  EXPECT_EQ(e.options[0].context + "|" + e.options[0].response, "He opened the \n red |door");
  e = published(data, "gsm8k", R"({"question":"2+3?","answer":"2+3 = <<2+3=5>>5\n#### 1,005"})");
  EXPECT_EQ(e.options[0].context, "Question: 2+3?\nAnswer: ");
  EXPECT_EQ(e.options[0].response, "2+3 = <<2+3=5>>5\n#### 1,005");
  EXPECT_EQ(e.answer, "1,005");
  e = published(data, "hellaswag",
                R"({"activity_label":"Cooking","ctx_a":"A man [header] stands.",)"
                R"("ctx_b":"he Then [title] turns","endings":[" up [step] now.","b","c","d"],)"
                R"("label":"3"})");
  EXPECT_EQ(e.options[0].context, "Cooking: A man stands. He then. turns ");
  EXPECT_EQ(e.options[0].response, "up now.");
  EXPECT_EQ(e.gold, 3);
  e = published(data, "mmlu",
                R"({"question":" Which? ","subject":"high_school_physics",)"
                R"("choices":["w","x","y","z"],"answer":3})");
  EXPECT_EQ(e.options[3].context + e.options[3].response,
            "The following are multiple choice questions (with answers) about high school "
            "physics.\n\nWhich?\nA. w\nB. x\nC. y\nD. z\nAnswer: D");
  EXPECT_EQ(e.gold, 3);
}

TEST_F(TaskTest, ALineThatIsNeitherFormIsExplained) {
  const std::string why =
      refused([&] { published(folder_ / "line.jsonl", "piqa", R"({"goal":"Open it"})"); });
  for (const char* part :
       {"line.jsonl:1: 'choices' cannot be computed from the keys", "goal, label, sol1, sol2"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " is not in " << why;
}

TEST_F(TaskTest, ShotsOfTheSameSubjectComeFromTheirOwnFile) {
  const auto line = [](const char* question, const char* subject) {
    return fmt::format(
        R"({{"question":"{}","subject":"{}","choices":["1","2","3","4"],"answer":0}})"
        "\n",
        question, subject);
  };
  write_file(folder_ / "mmlu.jsonl", line("q1", "law") + line("q2", "art"));
  write_file(folder_ / "mmlu_dev.jsonl", line("d1", "art") + line("d2", "law") + line("d3", "law"));
  const std::vector<Task> tasks = read_tasks({{"mmlu_law"}, folder_.string(), 1, 0});
  ASSERT_EQ(tasks.at(0).examples.size(), 1u);
  EXPECT_EQ(tasks[0].examples[0].options[0].context,
            "The following are multiple choice questions (with answers) about law.\n\n"
            "d2\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: A\n\nq1\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: ");
  // A task that is named twice is read once.
  EXPECT_EQ(
      read_tasks({{"mmlu_law", "mmlu_law", "mmlu_art", "mmlu"}, folder_.string(), 1, 0}).size(),
      3u);
  EXPECT_NE(refused([&] {
              read_tasks({{"mmlu_chess"}, folder_.string(), 0, 0});
            }).find("has no example of 'chess'. It has art, law."),
            std::string::npos);
}

// The two filters of lm-evaluation-harness for GSM8K.
TEST_F(TaskTest, StrictAndFlexibleAnswers) {
  TaskSpec spec = parse_task(find_task("gsm8k"));
  const char* written = "So 3 + 4 = $7.50 and\n#### 1,234.\nThe answer is 12 or $1,235.";
  EXPECT_EQ(extract_answer(spec, written), "1234");
  EXPECT_EQ(extract_last_answer(spec, written), "1235");
  EXPECT_EQ(extract_answer(spec, "it is 5"), "");
  EXPECT_EQ(extract_last_answer(spec, "it is 5"), "5");
  EXPECT_EQ(extract_last_answer(spec, "none"), "");
  std::vector<Example> examples(2);
  examples[0].answer = "1,234";
  examples[1].answer = "5";
  std::vector<ExampleScore> scores(2);
  scores[0].extracted = "1234";
  scores[0].extracted_last = "1235";
  scores[1].extracted_last = "5";
  const std::vector<Metric> m = metrics_of(spec, examples, scores);
  ASSERT_EQ(m.size(), 2u);
  EXPECT_EQ(m[0].value, 0.5);
  EXPECT_EQ(m[1].name, "exact_match_last");
  EXPECT_EQ(m[1].value, 0.5);
}

TEST(Tasks, ARowOfAnExampleHasTheExpectedAnswerAndTheOneMade) {
  TaskSpec spec;
  spec.kind = TaskKind::kChoice;
  Example example{7, {{"Q", "a"}, {"Q", "a long one"}}, 1, "", ""};
  ExampleScore score;
  score.line = 7;
  score.log = {-1, -2};
  EXPECT_EQ(to_json(example_row(spec, example, score)),
            R"({"line":7,"right":false,"expected":1,"choice":0,"choice_length":1,)"
            R"("log_likelihood":[-1.0,-2.0]})");
  spec.unconditional = " ";
  score.unconditional = {-0.5, -4};
  EXPECT_EQ(to_json(*example_row(spec, example, score).find("choice_unconditional")), "1");

  spec = {};
  spec.kind = TaskKind::kLastWord;
  score = {7, {-0.25}, {}, true, "", "", ""};
  EXPECT_EQ(to_json(example_row(spec, {7, {{"the", " end"}}, 0, "", ""}, score)),
            R"({"line":7,"right":true,"expected":" end","log_likelihood":[-0.25]})");

  spec = {};
  spec.kind = TaskKind::kExactMatch;
  spec.extract = "is ([0-9,]+)";
  spec.ignore = {","};
  score = {7, {}, {}, false, "it is 1,2", "12", ""};
  example.answer = "1,2";
  EXPECT_EQ(to_json(example_row(spec, example, score)),
            R"({"line":7,"right":true,"expected":"12","extracted":"12","written":"it is 1,2"})");
  spec.extract_last = "[0-9]+";
  score.extracted_last = "2";
  const Tree row = example_row(spec, example, score);
  EXPECT_EQ(to_json(*row.find("right_last")) + to_json(*row.find("extracted_last")), "false\"2\"");
}

// Rows and metrics are the same verdicts.
TEST(Tasks, TheShareOfRightRowsIsTheMetric) {
  TaskSpec spec;
  spec.kind = TaskKind::kChoice;
  const std::vector<Example> examples = {{1, {{"", "a"}, {"", "b"}}, 0, "", ""},
                                         {2, {{"", "a"}, {"", "b"}}, 0, "", ""},
                                         {3, {{"", "a"}, {"", "b"}}, 1, "", ""}};
  std::vector<ExampleScore> scores(3);
  for (ExampleScore& s : scores) s.log = {-1, -2};
  double right = 0;
  for (size_t i = 0; i < 3; ++i)
    right += to_json(*example_row(spec, examples[i], scores[i]).find("right")) == "true" ? 1 : 0;
  EXPECT_EQ(metrics_of(spec, examples, scores)[0].value, right / 3);
  EXPECT_EQ(right, 2);
}

TEST_F(TaskTest, ATaskFileFindsTheExamplesNextToItInAdditionToTheFolder) {
  const std::string row = R"({"query":"q","choices":["a","b"],"gold":0})"
                          "\n";
  std::filesystem::create_directories(folder_ / "others");
  file("own.yaml", kChoice);
  file("d.jsonl", row);
  file("others/piqa.jsonl", row + row);
  const auto tasks =
      read_tasks({{"piqa", (folder_ / "own.yaml").string()}, (folder_ / "others").string(), 0, 0});
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].examples.size(), 2u);
  EXPECT_EQ(tasks[1].examples.size(), 1u);
  // The folder is looked in first.
  file("others/d.jsonl", row + row + row);
  EXPECT_EQ(read_tasks({{(folder_ / "own.yaml").string()}, (folder_ / "others").string(), 0, 0})[0]
                .examples.size(),
            3u);
  std::filesystem::remove(folder_ / "others/d.jsonl");
  std::filesystem::remove(folder_ / "d.jsonl");
  EXPECT_NE(refused([&] {
              read_tasks({{(folder_ / "own.yaml").string()}, (folder_ / "others").string(), 0, 0});
            }).find((folder_ / "others").string() + ", " + folder_.string()),
            std::string::npos);
}

TEST(Tasks, WhatIsNotFoundIsWrongEvenIfNothingIsLeftOfTheAnswer) {
  TaskSpec spec;
  spec.kind = TaskKind::kExactMatch;
  spec.extract = "#### (-?[0-9.,]+)";
  spec.ignore = {","};
  std::vector<Example> examples(1);
  examples[0].answer = ",";
  const std::vector<ExampleScore> scores(1);  // nothing was found
  EXPECT_EQ(metrics_of(spec, examples, scores)[0].value, 0);
  spec.extract.clear();  // all that was written counts, and that is nothing
  EXPECT_EQ(metrics_of(spec, examples, scores)[0].value, 1);
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
