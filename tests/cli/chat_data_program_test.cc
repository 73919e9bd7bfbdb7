// What programs print about chat data: keys that are not read, problems as warnings, files that are
// neither run files nor datasets, and tokenizers that transformers reads differently.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class ChatData : public ProgramFolder {
 protected:
  ChatData() {
    put("end.jinja",
        "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}");
    put("run.yaml",
        "model: { family: llama, rotary_pct: 1, layers: 1, hidden: 32, heads: 2, context: 64,\n"
        "         vocabulary: 0 }\n"
        "data: { tokenizer: t.json, chat_template: end.jinja, sequence_length: 64 }\n"
        "batch: { global: 2, micro: 2 }\n"
        "schedule: { kind: constant, steps: 1 }\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }
  ProgramResult good(const std::string& arguments) const {
    ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.out << r.err;
    return r;
  }
  static void expect_in(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
};

TEST_F(ChatData, PreferencesWithAQuestionAndASystemMessage) {
  put("orca.jsonl",
      R"({"system":"Be kind.","question":"Say hi","chosen":"hi","rejected":"no","id":1})"
      "\n"
      R"({"system":"","question":"Say ho","chosen":"ho","rejected":"no","id":2})"
      "\n");
  const std::string options =
      " run.yaml objective.kind=dpo data.instructions=[orca.jsonl] data.sequence_length=128 "
      "model.context=128";
  const ProgramResult shown = good("data explain" + options + " --step 1");
  expect_in(shown.out, "2 pairs in 2 rows");
  expect_in(shown.out, "keys not read: id");
  expect_in(shown.out, "system:Be kind.<|endoftext|>user:Say hi<|endoftext|>assistant:[hi");
  expect_in(shown.out, "user:Say ho<|endoftext|>assistant:[no");
  const ProgramResult trained = good("train" + options);
  expect_in(trained.out + trained.err, "2 pairs in 2 rows");
  put("input.jsonl", R"({"input":"Say hi","chosen":"hi there","rejected":"hi no"})"
                     "\n");
  const ProgramResult lost =
      run("train run.yaml run.directory=b objective.kind=dpo data.instructions=[input.jsonl]");
  EXPECT_EQ(lost.code, 1);
  expect_in(lost.err, "input.jsonl:1: the object has 'input' next to 'chosen' and 'rejected'");
}

TEST_F(ChatData, ProblemsAreWarningsOfTrainExplainAndRender) {
  put("tools.jsonl",
      R"({"messages":[{"role":"user","content":"U"},{"role":"assistant","content":"",)"
      R"("tool_calls":[{"function":{"name":"f","arguments":{}}}]}],"tools":[{"name":"f"}]})"
      "\n");
  put("dolly.jsonl", R"({"instruction":"U","context":"C","output":"A"})"
                     "\n");
  const std::string data = " data.instructions=[tools.jsonl,dolly.jsonl]";
  const std::string calls = "1 of 1 conversation with tool calls: the chat template does not write";
  const std::string context = "'context' has text that is not read in the form alpaca";
  const ProgramResult trained = good("train run.yaml" + data);
  for (const std::string& part :
       {calls, context, std::string("1 of 2 learned answers has no text")})
    expect_in(trained.out + trained.err, part);
  const ProgramResult explained = good("data explain run.yaml" + data);
  expect_in(explained.err, "warning: " + calls);
  const Tree json = parse_json(good("data explain run.yaml --json" + data).out, "json");
  expect_in(to_json(*json.find("data")->find("warnings")), context);
  EXPECT_EQ(to_json(*json.find("data")->find("unread_keys")), R"(["context"])");
  expect_in(good("data render end.jinja tools.jsonl --tokenizer t.json").err, "warning: " + calls);
}

TEST_F(ChatData, AFileOfExamplesIsNotARunFile) {
  put("chat.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  put("list.json", "[{\"text\":\"a\"}]");
  for (const char* file : {"chat.jsonl", "list.json"}) {
    const ProgramResult r = run(fmt::format("data explain {}", file));
    EXPECT_EQ(r.code, 1);
    expect_in(r.err, fmt::format("{0}: is a file of examples, expected a run file, a run directory "
                                 "or a dataset. `tessera data render TEMPLATE {0} --tokenizer T`",
                                 file));
  }
}

// transformers' Qwen2Tokenizer splits words by a rule of its own.
TEST_F(ChatData, ATokenizerThatTransformersReadsDifferentlyIsReported) {
  put("chat.jsonl", R"({"prompt":"U","completion":"A"})"
                    "\n");
  const std::string differs = "AutoTokenizer of transformers splits it as the published";
  good("train run.yaml data.instructions=[chat.jsonl]");
  good("checkpoint export run --to llama");
  EXPECT_EQ(good("config print llama").err.find(differs), std::string::npos);
  good("train run.yaml data.instructions=[chat.jsonl] run.directory=q model.family=qwen2");
  good("checkpoint export q --to qwen2");
  expect_in(good("config print qwen2").err, differs + " qwen2 does");
  const ProgramResult tuned =
      good("finetune --from qwen2 --data chat.jsonl --out tuned schedule.steps=1 run.threads=1");
  expect_in(tuned.out + tuned.err, differs + " qwen2 does");
  EXPECT_TRUE(get("tuned/finetune.yaml").ends_with("\n"));
}

}  // namespace
}  // namespace tessera::cli
