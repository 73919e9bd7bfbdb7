// Chat data from a file to a model that ends its turns: training with a chat template, export,
// `tessera finetune` from the exported folder, and what contradicts it.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

// The byte tokenizer with ChatML's two tokens, 257 and 258.
std::string chat_ml_tokenizer() {
  std::string t = byte_tokenizer(), more;
  int id = 257;
  for (const char* name : {"<|im_start|>", "<|im_end|>"})
    more += fmt::format(
        R"(,{{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,)"
        R"("normalized":false,"special":true}})",
        id++, name);
  return t.insert(t.find(R"(],"normalizer")"), more);
}

constexpr const char* kChatMl =
    "{% for m in messages %}\n<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\n"
    "{% if add_generation_prompt %}\n<|im_start|>assistant\n{% endif %}\n";

class ChatProgram : public ProgramFolder {
 protected:
  ChatProgram() {
    put("chat.json", chat_ml_tokenizer());
    put("chatml.jinja", kChatMl);
    std::string lines;
    for (const auto& [question, answer] :
         {std::pair{"one?", "uno"}, {"two?", "dos"}, {"six?", "seis"}})
      lines += fmt::format(
          R"({{"messages":[{{"role":"user","content":"{}"}},{{"role":"assistant","content":"{}"}}]}})"
          "\n",
          question, answer);
    put("chat.jsonl", lines);
    put("chat.yaml",
        "model: { family: llama, rotary_pct: 1, layers: 2, hidden: 64, heads: 4, context: 64,\n"
        "         vocabulary: 0 }\n"
        "data: { tokenizer: chat.json, instructions: [chat.jsonl], chat_template: chatml.jinja,\n"
        "        sequence_length: 64 }\n"
        "batch: { global: 2, micro: 2 }\n"
        "optimizer: { learning_rate: 5.0e-3 }\n"
        "schedule: { kind: constant, steps: 2 }\n"
        "run: { directory: chat, seed: 1, threads: 1 }\n");
  }
  std::string good(const std::string& arguments) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.out << r.err;
    return r.out + r.err;
  }
  void fails(const std::string& arguments, const std::vector<std::string>& parts) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 1) << arguments << "\n" << r.out << r.err;
    for (const std::string& part : parts)
      EXPECT_NE(r.err.find(part), std::string::npos) << arguments << "\n" << part << "\n" << r.err;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kAsk =
    "--prompt '<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\n' --temperature 0 "
    "--max-tokens 8 --json";

TEST_F(ChatProgram, AModelTunedOnChatEndsItsTurnsAndKeepsItsTemplate) {
  const std::string told = good("train chat.yaml schedule.steps=250");
  EXPECT_TRUE(contains(told, "form: messages")) << told;
  EXPECT_TRUE(contains(good(fmt::format("generate chat {}", kAsk)), "\"text\":\"dos\""));
  good("checkpoint export chat --to hf");
  EXPECT_EQ(get("hf/chat_template.jinja"), kChatMl);
  const std::string generation = get("hf/generation_config.json");
  EXPECT_TRUE(contains(generation, "258") && contains(generation, "256")) << generation;
  const std::string shown = good("config print hf");
  EXPECT_TRUE(contains(shown, "# tokenizer: tokenizer.json, 259 tokens")) << shown;
  EXPECT_TRUE(contains(shown, "# end_tokens: <|im_end|> (258), <|endoftext|> (256)")) << shown;
  EXPECT_TRUE(contains(shown, "<|im_start|>{{ m.role }}")) << shown;
}

TEST_F(ChatProgram, FinetuneTakesModelTokenizerAndTemplateFromTheFolder) {
  good("train chat.yaml schedule.steps=100");
  good("checkpoint export chat --to hf");
  put("more.json",
      R"([{"conversations": [{"from": "human", "value": "two?"}, {"from": "gpt", "value": "zwei"}]}])");
  const std::string command =
      "finetune --from hf --data more.json --out tuned --epochs 120 --learning-rate 0.003 "
      "run.threads=1";
  const std::string told = good(command);
  EXPECT_TRUE(contains(told, "run file  tuned/finetune.yaml") && contains(told, "form: sharegpt"))
      << told;
  EXPECT_TRUE(contains(get("tuned/finetune.yaml"), "from: hf"));
  EXPECT_TRUE(contains(good(fmt::format("generate tuned {}", kAsk)), "\"text\":\"zwei\""));
  EXPECT_TRUE(contains(get("tuned/finetune.yaml"), "threads: 1"));
  good(command);  // the same command resumes, and so does its run file
  good("train tuned/finetune.yaml");
  fails(command + " --lora 4", {"tuned/finetune.yaml: a run began with other settings"});
  // A call that failed before its first step leaves nothing that the corrected command must keep.
  const std::string first =
      "finetune --from hf --data more.json --out second --epochs 1 run.threads=1 ";
  fails(first + "--validation missing.jsonl", {"missing.jsonl"});
  good(first + "lora.rank=4");
  EXPECT_TRUE(contains(get("second/finetune.yaml"), "learning_rate: 0.0002"))
      << get("second/finetune.yaml");
  // Pairs of answers have the rates of preference objectives.
  put("pairs.jsonl", R"({"prompt":"the","chosen":" fox","rejected":" dog"})"
                     "\n"
                     R"({"prompt":"a","chosen":" fox","rejected":" dog"})"
                     "\n");
  const std::string dpo =
      "finetune --from hf --data pairs.jsonl --epochs 1 run.threads=1 objective.kind=dpo ";
  good(dpo + "--out third");
  EXPECT_TRUE(contains(get("third/finetune.yaml"), "learning_rate: 1.0e-06"))
      << get("third/finetune.yaml");
  good(dpo + "--lora 4 --out fourth");
  EXPECT_TRUE(contains(get("fourth/finetune.yaml"), "learning_rate: 1.0e-05"))
      << get("fourth/finetune.yaml");
  const std::string help = run("help finetune").out;
  for (const char* part : {"objective.kind=dpo", "16 rows", "data.long_examples=skip", "1e-6"})
    EXPECT_TRUE(contains(help, part)) << part << help;
  // One row, twice per step.
  good("finetune --from hf --data more.json --out wide --epochs 6 batch.global=2 run.threads=1");
  EXPECT_TRUE(contains(get("wide/finetune.yaml"), "global: 2"));
  EXPECT_TRUE(contains(get("wide/finetune.yaml"), "steps: 3\n"));
  // Keys that a step of one row, or a run of one step, would contradict.
  good(
      "finetune --from hf --data more.json --out keys --epochs 8 batch.micro=2 "
      "schedule.warmup_steps=3 run.threads=1");
  for (const char* line : {"global: 2\n", "micro: 2\n", "steps: 4\n", "warmup_steps: 3\n"})
    EXPECT_TRUE(contains(get("keys/finetune.yaml"), line)) << line << get("keys/finetune.yaml");
  const auto expect_rejected = [&](const char* option, int code, const char* message) {
    const ProgramResult r =
        run(fmt::format("finetune --from hf --data more.json --out bad {}", option));
    EXPECT_EQ(r.code, code) << option;
    EXPECT_TRUE(contains(r.err, message)) << option << "\n" << r.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "bad")) << option;
  };
  expect_rejected("--lora -1", 2, "--lora is -1");
  expect_rejected("--epochs 1e7", 2, "--epochs is 1");
  expect_rejected("--learning-rate -1", 2, "--learning-rate is -1");
  expect_rejected("--learning-rate 0", 2, "--learning-rate is 0");
  expect_rejected("--sequence-length -1", 2, "--sequence-length is -1");
  expect_rejected("batch.global=3 batch.micro=2", 1, "batch.micro");
  // The line break after the role is part of the prompt of a task.
  put("task.yaml",
      "kind: exact_match\ndata: task.jsonl\nform: \"{query}{response}\"\nresponse: \"{a}\"\n"
      "answer: \"{a}\"\nmax_tokens: 8\n");
  put("task.jsonl",
      R"({"query": "<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\n", "a": "zwei"})"
      "\n");
  const std::string answered = good("eval tuned --task task.yaml --json");
  EXPECT_TRUE(contains(answered, "\"exact_match\":{\"value\":1.0")) << answered;
  good("checkpoint export tuned --to hf2");
  EXPECT_EQ(get("hf2/chat_template.jinja"), kChatMl);
}

// ChatML would not reject the system message.
TEST_F(ChatProgram, ChatUsesTheTemplateOfTheRunAndOfTheFolder) {
  const std::string rejects =
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}\n";
  put("chatml.jinja", rejects + kChatMl);
  put("questions", "two?\none?\n");
  good("train chat.yaml schedule.steps=250");
  good("checkpoint export chat --to hf");
  for (const char* model : {"chat", "hf"}) {
    // The second answer follows the first turn, which the template repeats; training data has
    // single turns only, so it is not compared.
    const ProgramResult r = run(fmt::format("chat {} --temperature 0 < questions", model));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(r.out.starts_with("dos\n")) << r.out;
    fails(fmt::format("chat {} --system 'Be brief.' < questions", model),
          {"that of the checkpoint", "no system here"});
  }
  put("other.jinja", "{{ raise_exception('the other template') }}");
  fails("chat hf --chat-template other.jinja < questions", {"other.jinja:1:", "other template"});
  put("other.jinja", "{% include 'x' %}");
  fails("chat hf --chat-template other.jinja < questions",
        {"other.jinja:1:4", "'include' is not supported", "--chat-template FILE"});
}

TEST_F(ChatProgram, AnotherTemplateIsRejectedWithBothValues) {
  good("train chat.yaml");
  good("checkpoint export chat --to hf");
  put("other.jinja", std::string(kChatMl) + "x");
  put("from.yaml",
      "data: { instructions: [chat.jsonl], chat_template: other.jinja }\n"
      "batch: { global: 2, micro: 2 }\n"
      "schedule: { kind: constant, steps: 1 }\n"
      "checkpoint: { from: hf }\n"
      "run: { directory: other, seed: 1, threads: 1 }\n");
  fails("train from.yaml", {"data.chat_template = other.jinja", "checkpoint.from = hf",
                            "'x' instead of ''", "data.allow_other_template=true"});
  put("other.jinja", "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}");
  good("train from.yaml data.allow_other_template=true");
  good("checkpoint export other --to hf2");
  EXPECT_TRUE(contains(get("hf2/chat_template.jinja"), "<|im_start|>{{ m.content }}"));
}

double number_after(const std::string& text, const std::string& name) {
  const size_t at = text.rfind(name);
  EXPECT_NE(at, std::string::npos) << name << "\n" << text;
  return at == std::string::npos ? 0 : std::stod(text.substr(at + name.size()));
}

TEST_F(ChatProgram, EvalReadsConversationsAsTheRunDid) {
  std::string lines = get("chat.jsonl");
  for (size_t at; (at = lines.find("\"assistant\"")) != std::string::npos;)
    lines.replace(at, 11, "\"bot\"");
  put("chat.jsonl", lines);
  good(
      "train chat.yaml data.validation=[chat.jsonl] 'data.roles={assistant: [bot]}' "
      "data.learn=everything precision=fp32");
  const double logged = number_after(get("chat/metrics.jsonl"), "\"validation_loss\":");
  const std::string found = good("eval chat --instructions chat.jsonl --json");
  EXPECT_NEAR(number_after(found, "\"loss\":"), logged, 1e-5) << found;
}

// The conversations in a row are apart, as in the run, although the folder does not describe it.
TEST_F(ChatProgram, EvalOfAnExportIsEvalOfTheRun) {
  good("train chat.yaml model.vocabulary_multiple=1");  // no padding, which an export lacks
  good("checkpoint export chat --to hf");
  const auto loss_of = [&](const char* model) {
    return number_after(good(fmt::format("eval {} --instructions chat.jsonl --json", model)),
                        "\"loss\":");
  };
  EXPECT_NEAR(loss_of("hf"), loss_of("chat"), 1e-5);
}

TEST_F(ChatProgram, EvalOfATextIsEvalOfItsDataset) {
  put("text.txt", "one two six\ntwo six one\n");
  good("train chat.yaml");
  good("data build --tokenizer chat.json --out set text.txt");
  const std::string of_set = good("eval chat set --json"),
                    of_text = good("eval chat --text text.txt --json");
  EXPECT_EQ(number_after(of_text, "\"tokens\":"), number_after(of_set, "\"tokens\":"));
  EXPECT_NEAR(number_after(of_text, "\"loss\":"), number_after(of_set, "\"loss\":"), 1e-9);
}

TEST_F(ChatProgram, ExplainMarksWhatIsLearned) {
  const std::string shown = good("data explain chat.yaml --ids");
  EXPECT_TRUE(contains(shown, "<|im_start|>assistant\n[seis<|im_end|>]\n")) << shown;
  EXPECT_TRUE(contains(shown, " [115 101 105 115 258] 10")) << shown;
  EXPECT_TRUE(contains(good("data render chatml.jinja chat.jsonl --prompt"),
                       "<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\ndos<|im_end|>\n"
                       "<|im_start|>assistant\n"));
}

TEST_F(ChatProgram, TemplatesThatAreNotSupportedAreRejectedBeforeTheRun) {
  put("chatml.jinja", "{{ messages }}\n{% include 'x' %}");
  fails("train chat.yaml", {"chatml.jinja:2:4: the statement 'include' is not supported"});
  put("chatml.jinja", "{{ strftime_now('%Y') }}");
  fails("train chat.yaml", {"chat.jsonl:1: chatml.jinja:1:", "data.template_date"});
}

}  // namespace
}  // namespace tessera::cli
