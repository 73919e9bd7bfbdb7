// `tessera serve` as clients see it.
#include <algorithm>
#include <mutex>
#include <set>

#include "base/utf8.h"
#include "tests/serve/served_run.h"

namespace tessera::serve {
namespace {

TEST_F(ServedRun, HasTheModelAndItsHealth) {
  serve({"--name", "tiny"});
  Client c(port_);
  EXPECT_EQ(c.get("/health").body, R"({"status":"ok"})");
  const Tree models = tree(c.get("/v1/models"));
  EXPECT_EQ(*models.find("data")->as_list()->at(0).find("id")->as_string(), "tiny");
  EXPECT_EQ(c.get("/v1/models/tiny").status, 200);
  EXPECT_EQ(c.get("/v1/models/other").status, 404);
  EXPECT_EQ(metric("tessera_serve_slots"), 8);
}

// The text of a greedy completion is that of `tessera generate`, streamed or not.
TEST_F(ServedRun, GreedyTextEqualsGenerate) {
  serve({"--name", "tiny"});
  const cli::ProgramResult g =
      run("generate run --prompt 'the quick' --temperature 0 --max-tokens 24 --threads 1 --json");
  ASSERT_EQ(g.code, 0) << g.err;
  const std::string expected = *parse_json(g.out, "out").find("text")->as_string();
  const std::string body =
      R"({"model":"tiny","prompt":"the quick","temperature":0,"max_tokens":24)";
  Client c(port_);
  const Tree whole = tree(c.post("/v1/completions", body + "}"));
  EXPECT_EQ(text(whole), expected);
  EXPECT_EQ(*choice(whole).find("finish_reason")->as_string(), "length");
  EXPECT_EQ(std::get<int64_t>(whole.find("usage")->find("completion_tokens")->value), 24);
  const Answer stream = c.post("/v1/completions", body + R"(,"stream":true})");
  std::string joined;
  size_t events = 0;
  for (size_t at = 0; (at = stream.body.find("data: ", at)) != stream.body.npos;) {
    const size_t end = stream.body.find("\n\n", at);
    ASSERT_NE(end, stream.body.npos);
    const std::string data = stream.body.substr(at + 6, end - at - 6);
    at = end;
    ++events;
    if (data == "[DONE]") continue;
    joined += *choice(parse_json(data, "event")).find("text")->as_string();
  }
  EXPECT_EQ(joined, expected);
  EXPECT_GT(events, 10u);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
}

// A model with adapters of another folder, by whose name requests ask for it.
TEST_F(ServedRun, ServesAdaptersOverTheModel) {
  const cli::ProgramResult trained = run(
      "train run.yaml checkpoint.from=run checkpoint.load=weights lora.rank=2 run.directory=tuned "
      "schedule.steps=4");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const cli::ProgramResult g =
      run("generate tuned --prompt 'the quick' --temperature 0 --max-tokens 24 --threads 1 --json");
  ASSERT_EQ(g.code, 0) << g.err;
  serve({"--adapter", (folder_ / "tuned").string()});
  Client c(port_);
  const Tree whole =
      tree(c.post("/v1/completions",
                  R"({"model":"tuned","prompt":"the quick","temperature":0,"max_tokens":24})"));
  EXPECT_EQ(text(whole), *parse_json(g.out, "out").find("text")->as_string());
}

TEST_F(ServedRun, ChatsWithTemplateStopsAndChoices) {
  serve();
  Client c(port_);
  const Tree t = tree(
      c.post("/v1/chat/completions",
             R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"the"}],"n":3,
          "max_tokens":12,"seed":5,"logprobs":true,"top_logprobs":2})"));
  ASSERT_EQ(t.find("choices")->as_list()->size(), 3u);
  EXPECT_EQ(*choice(t).find("message")->find("role")->as_string(), "assistant");
  EXPECT_NE(text(t, 0), text(t, 1));
  const Tree::List& tokens = *choice(t).find("logprobs")->find("content")->as_list();
  EXPECT_EQ(tokens.at(0).find("top_logprobs")->as_list()->size(), 2u);
  // A stop text ends a text, and is not part of it.
  const Tree cut = tree(c.post(
      "/v1/completions", R"({"prompt":"the quick","temperature":0,"max_tokens":40,"stop":" "})"));
  EXPECT_EQ(text(cut).find(' '), std::string::npos);
}

std::vector<std::string> texts_of(const Tree& t) {
  std::vector<std::string> out;
  for (const Tree& c : *t.find("choices")->as_list()) out.push_back(*c.find("text")->as_string());
  return out;
}

// Also those of equal prompts. With a seed, a text does not depend on the other prompts.
TEST_F(ServedRun, TextsOfOneRequestDifferUnlessASeedIsGiven) {
  serve();
  Client c(port_);
  const auto posted = [&](const std::string& prompt, const std::string& more) {
    return texts_of(
        tree(c.post("/v1/completions",
                    fmt::format(R"({{"prompt":{},"n":2,"max_tokens":24,"ignore_eos":true{}}})",
                                prompt, more))));
  };
  const std::string twice = R"(["the quick","the quick"])", seed = R"(,"seed":7)";
  const std::vector<std::string> free = posted(twice, "");
  EXPECT_EQ(std::set(free.begin(), free.end()).size(), 4u);
  EXPECT_NE(posted(twice, ""), free);
  const std::vector<std::string> seeded = posted(twice, seed), one = posted(R"("the quick")", seed);
  EXPECT_NE(one[0], one[1]);
  EXPECT_EQ(seeded, (std::vector<std::string>{one[0], one[1], one[0], one[1]}));
}

// The most memory that a process has had, in MiB.
int64_t peak_mib(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/status", pid);
  std::FILE* const f = std::fopen(path.c_str(), "r");
  long long kib = 0;
  char line[256];
  while (std::fgets(line, sizeof line, f) != nullptr) std::sscanf(line, "VmHWM: %lld", &kib);
  std::fclose(f);
  return kib >> 10;
}

// Small JSON values take far more memory than their text.
TEST_F(ServedRun, ReadsOneLargeBodyAtATime) {
  serve();
  std::string body = R"({"prompt":"a","max_tokens":0,"metadata":[{})";
  while (body.size() < (2u << 20)) body += ",{}";
  body += "]}";
  const int64_t before = peak_mib(pid_);
  EXPECT_EQ(Client(port_).post("/v1/completions", body).status, 200);
  const int64_t one = peak_mib(pid_) - before;
  EXPECT_GT(one, 40);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back(
        [&] { EXPECT_EQ(Client(port_).post("/v1/completions", body).status, 200); });
  for (std::thread& t : threads) t.join();
  // The bytes of all bodies, and the values of one.
  EXPECT_LT(peak_mib(pid_) - before, 3 * one);
}

TEST_F(ServedRun, EachResponseHasItsOwnId) {
  serve();
  std::set<std::string> ids;
  std::mutex mutex;
  std::vector<std::thread> threads;
  constexpr size_t kThreads = 16, kRequests = 100;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      Client c(port_);
      for (size_t n = 0; n < kRequests; ++n) {
        const Tree t = tree(c.post("/v1/completions", R"({"prompt":"a","max_tokens":0})"));
        const std::lock_guard lock(mutex);
        ids.insert(*t.find("id")->as_string());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ids.size(), kThreads * kRequests);
}

// A text, its tokens and their offsets: of a whole response, or of all events of a stream.
struct Offsets {
  std::string text;
  std::vector<std::string> tokens;
  std::vector<int64_t> offsets;

  void add(const Tree& choice) {
    text += *choice.find("text")->as_string();
    const Tree& p = *choice.find("logprobs");
    for (const Tree& t : *p.find("tokens")->as_list()) tokens.push_back(*t.as_string());
    for (const Tree& t : *p.find("text_offset")->as_list())
      offsets.push_back(std::get<int64_t>(t.value));
  }
};

// Each token of ASCII is found at its offset, counted in characters.
void expect_tokens_at_offsets(const Offsets& o) {
  std::vector<std::string> characters;
  for (size_t i = 0; i < o.text.size(); i += characters.back().size())
    characters.push_back(o.text.substr(i, std::max<size_t>(utf8_length(o.text, i), 1)));
  ASSERT_EQ(o.offsets.size(), o.tokens.size());
  size_t found = 0;
  for (size_t i = 0; i < o.tokens.size(); ++i) {
    if (o.tokens[i].size() != 1) continue;
    ASSERT_LT(static_cast<size_t>(o.offsets[i]), characters.size()) << i;
    EXPECT_EQ(characters[static_cast<size_t>(o.offsets[i])], o.tokens[i]) << i << " of " << o.text;
    ++found;
  }
  EXPECT_GT(found, 3u);
}

TEST_F(ServedRun, TextOffsetsAreCharactersOfTheText) {
  serve();
  Client c(port_);
  for (int seed = 0; seed < 6; ++seed)
    for (const char* echo : {"true", "false"}) {
      const std::string body =
          fmt::format(R"({{"prompt":"Café 日x","echo":{},"logprobs":0,"max_tokens":40,"seed":{},)"
                      R"("temperature":2,"ignore_eos":true,"stop":"qqq")",
                      echo, seed);
      Offsets whole, stream;
      whole.add(choice(tree(c.post("/v1/completions", body + "}"))));
      expect_tokens_at_offsets(whole);
      const Answer a = c.post("/v1/completions", body + R"(,"stream":true})");
      for (size_t at = 0; (at = a.body.find("data: {", at)) != a.body.npos; ++at) {
        const size_t end = a.body.find("\n\n", at);
        stream.add(choice(parse_json(a.body.substr(at + 6, end - at - 6), "event")));
      }
      expect_tokens_at_offsets(stream);
      EXPECT_EQ(stream.text, whole.text);
      EXPECT_EQ(stream.tokens, whole.tokens);
      EXPECT_EQ(stream.offsets, whole.offsets);
      if (echo == std::string("true")) {
        ASSERT_GT(whole.offsets.size(), 10u);
        EXPECT_EQ(std::vector(whole.offsets.begin(), whole.offsets.begin() + 10),
                  (std::vector<int64_t>{0, 1, 2, 3, 3, 4, 5, 5, 5, 6}));
        EXPECT_EQ(whole.offsets[10], 7);
      }
    }
}

// The token that the tokenizer puts before a text is no part of what the client sent.
TEST_F(ServedRun, EchoesOnlyThePrompt) {
  std::string tokenizer = byte_tokenizer();
  const std::string none = R"("post_processor":null)";
  tokenizer.replace(tokenizer.find(none), none.size(),
                    R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":)"
                    R"({"id":"<|endoftext|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)"
                    R"("pair":[],"special_tokens":{"<|endoftext|>":{"id":"<|endoftext|>",)"
                    R"("ids":[256],"tokens":["<|endoftext|>"]}}})");
  put("begin.json", tokenizer);
  ASSERT_EQ(run("data build --tokenizer begin.json --out b a.txt").code, 0);
  const cli::ProgramResult r =
      run("train run.yaml data.tokenizer=begin.json data.train=[b] schedule.steps=1 "
          "run.directory=begun");
  ASSERT_EQ(r.code, 0) << r.err;
  served_ = "begun";
  serve();
  Client c(port_);
  const Tree t = tree(
      c.post("/v1/completions", R"({"prompt":"abc","max_tokens":0,"echo":true,"logprobs":1})"));
  EXPECT_EQ(std::get<int64_t>(t.find("usage")->find("prompt_tokens")->value), 4);
  Offsets o;
  o.add(choice(t));
  EXPECT_EQ(o.text, "abc");
  EXPECT_EQ(o.tokens, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(o.offsets, (std::vector<int64_t>{0, 1, 2}));
  // It follows the token that was added, so its probability is known.
  EXPECT_FALSE(choice(t).find("logprobs")->find("token_logprobs")->as_list()->at(0).is_null());
}

// The tokens of a conversation are those of training: the end-of-text token follows each turn.
TEST_F(ServedRun, ChatsAsTheRunWasTuned) {
  put("pairs.jsonl", R"({"prompt":"one?","response":"uno"})"
                     "\n");
  const cli::ProgramResult r = run(
      "train run.yaml data.train=[] data.instructions=[pairs.jsonl] "
      "'data.template=\"Q: {prompt}\\nA: {response}\\n\"' schedule.steps=1 run.directory=tuned");
  ASSERT_EQ(r.code, 0) << r.err;
  served_ = "tuned";
  serve();
  Client c(port_);
  const auto posted = [&](const std::string& messages) {
    return c.post("/v1/chat/completions",
                  fmt::format(R"({{"messages":[{}],"max_tokens":1}})", messages));
  };
  const auto tokens = [&](const std::string& messages) {
    return std::get<int64_t>(tree(posted(messages)).find("usage")->find("prompt_tokens")->value);
  };
  const std::string system = R"({"role":"system","content":"s"})",
                    user = R"({"role":"user","content":"one?"})",
                    assistant = R"({"role":"assistant","content":"uno"})";
  const int64_t one = 11, answered = one + 4 + 1;  // "Q: one?\nA: ", "uno\n", the end of a text
  EXPECT_EQ(tokens(user), one);
  EXPECT_EQ(tokens(system + "," + user), one + 3);  // "s\n\n"
  EXPECT_EQ(tokens(user + "," + assistant + "," + user), answered + one);
  EXPECT_EQ(tokens(user + "," + assistant + "," + user + "," + assistant + "," + user),
            2 * answered + one);
  for (const std::string& messages : {system, user + "," + assistant}) {
    const Answer a = posted(messages);
    EXPECT_EQ(a.status, 400);
    EXPECT_NE(a.body.find("no message of the user to answer"), a.body.npos) << a.body;
  }
}

// A server runs for days.
TEST_F(ServedRun, TemplatesReadTheTimeOfTheRequest) {
  put("time.jinja",
      "{% set s = strftime_now('%S') %}{% if s[1] in '13579' %}a{% else %}abcdef{% endif %}");
  serve({"--chat-template", (folder_ / "time.jinja").string()});
  Client c(port_);
  std::set<int64_t> lengths;
  for (int i = 0; i < 30 && lengths.size() < 2; ++i) {
    const Tree t = tree(c.post("/v1/chat/completions",
                               R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1})"));
    lengths.insert(std::get<int64_t>(t.find("usage")->find("prompt_tokens")->value));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(lengths, (std::set<int64_t>{1, 6}));
}

TEST_F(ServedRun, EchoesWithProbabilities) {
  serve();
  Client c(port_);
  const Tree t = tree(
      c.post("/v1/completions", R"({"prompt":"abc","max_tokens":0,"echo":true,"logprobs":1})"));
  EXPECT_EQ(text(t), "abc");
  const Tree& p = *choice(t).find("logprobs");
  EXPECT_EQ(p.find("tokens")->as_list()->size(), 3u);
  EXPECT_TRUE(p.find("token_logprobs")->as_list()->at(0).is_null());
  EXPECT_LT(*number_in(p.find("token_logprobs")->as_list()->at(2)), 0);
}

// Each of 64 texts that are generated at once is what it is alone.
TEST_F(ServedRun, ManyAtOnceEqualEachAlone) {
  serve({"--slots", "7"});
  const auto body = [](int i) {
    return fmt::format(R"({{"prompt":"{}","max_tokens":{},"temperature":{},"seed":{}}})",
                       std::string("the quick brown fox jumps over").substr(0, 1 + i % 29),
                       4 + i % 13, i % 4 == 0 ? 0.0 : 0.9, i);
  };
  std::vector<std::string> alone, together(64);
  for (int i = 0; i < 64; ++i)
    alone.push_back(text(tree(Client(port_).post("/v1/completions", body(i)))));
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      Client c(port_);
      together[static_cast<size_t>(i)] = text(tree(c.post("/v1/completions", body(i))));
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(together, alone);
  EXPECT_EQ(metric("tessera_serve_active_texts"), 0);
}

TEST_F(ServedRun, AnswersErrorsInTheFormOfTheApi) {
  serve({"--name", "tiny", "--queue", "0", "--slots", "1", "--body-limit", "1"});
  Client c(port_);
  const auto error = [](const Answer& a) { return *tree(a).find("error"); };
  const auto posted = [&](const std::string& body) { return c.post("/v1/completions", body); };
  Answer a = posted(R"({"prompt":"a","model":"gpt-4"})");
  EXPECT_EQ(a.status, 404);
  EXPECT_EQ(*error(a).find("code")->as_string(), "model_not_found");
  a = posted(R"({"prompt":"a","temperature":-2})");
  EXPECT_EQ(a.status, 400);
  EXPECT_EQ(*error(a).find("type")->as_string(), "invalid_request_error");
  a = posted(R"({"prompt":"a","max_tokens":256})");
  EXPECT_EQ(a.status, 400);
  EXPECT_EQ(*error(a).find("code")->as_string(), "context_length_exceeded");
  EXPECT_EQ(posted("{").status, 400);
  EXPECT_EQ(posted(R"({"prompt":[300]})").status, 400);  // in the padded vocabulary
  for (const char* const key : {R"("logit_bias":{"300":1})", R"("stop_token_ids":[300])"}) {
    a = posted(fmt::format(R"({{"prompt":"a",{}}})", key));
    EXPECT_EQ(a.status, 400) << key;
    EXPECT_NE(error(a).find("message")->as_string()->find("token id 300"), std::string::npos);
  }
  a = c.get("/v1/completions");
  EXPECT_EQ(a.status, 405);
  EXPECT_NE(a.head.find("Allow: POST"), a.head.npos) << a.head;
  a = c.post("/v1/models", "{}");
  EXPECT_NE(a.head.find("Allow: GET, HEAD"), a.head.npos) << a.head;
  EXPECT_EQ(c.get("/nowhere").status, 404);
  EXPECT_EQ(Client(port_).post("/v1/completions", std::string(2 << 20, ' ')).status, 413);
  // Two texts need two slots, and nothing may wait.
  a = posted(R"({"prompt":"a","n":2})");
  EXPECT_EQ(a.status, 429);
  EXPECT_NE(a.head.find("Retry-After"), a.head.npos);
}

TEST_F(ServedRun, RequiresTheKey) {
  put("key", "secret\n");
  serve({"--api-key-file", (folder_ / "key").string()});
  Client c(port_);
  EXPECT_EQ(c.get("/v1/models").status, 401);
  EXPECT_EQ(c.ask("GET /v1/models HTTP/1.1\r\nAuthorization: Bearer secre\r\n\r\n").status, 401);
  EXPECT_EQ(c.ask("GET /v1/models HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n").status, 200);
  EXPECT_EQ(c.get("/health").status, 200);
}

TEST_F(ServedRun, AClientThatLeavesFreesItsSlot) {
  serve({"--slots", "1"});
  for (const char* stream : {"true", "false"}) {
    Client c(port_);
    ASSERT_TRUE(c.send(Client::posted(
        "/v1/completions",
        fmt::format(R"({{"prompt":"a","max_tokens":250,"ignore_eos":true,"stream":{}}})",
                    stream))));
    c.close();
  }
  for (int i = 0; i < 500 && metric("tessera_serve_cancelled_texts_total") < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(metric("tessera_serve_cancelled_texts_total"), 2);
  EXPECT_EQ(metric("tessera_serve_waiting_texts"), 0);
  EXPECT_EQ(Client(port_).post("/v1/completions", R"({"prompt":"a","max_tokens":2})").status, 200);
}

// SIGTERM completes what was accepted, and the exit code is 0.
TEST_F(ServedRun, DrainsWhenItIsStopped) {
  serve({"--slots", "2", "--drain", "300"});
  Client c(port_);
  ASSERT_TRUE(c.send(Client::posted(
      "/v1/completions",
      R"({"prompt":"a","max_tokens":250,"ignore_eos":true,"temperature":0,"stream":true})")));
  while (c.received().find("data:") == std::string::npos) ASSERT_TRUE(c.receive());
  ::kill(pid_, SIGTERM);
  const Answer a = c.answer();
  EXPECT_TRUE(a.body.ends_with("data: [DONE]\n\n")) << a.body;
  EXPECT_EQ(stop(0), 0);
  EXPECT_NE(read_file(log_).find("stopped"), std::string::npos);
}

// A client that has sent half a request does not delay the end.
TEST_F(ServedRun, DrainsInTheTimeThatIsGiven) {
  serve({"--drain", "1", "--request-timeout", "60"});
  Client half(port_);
  ASSERT_TRUE(half.send("POST /v1/comp"));
  EXPECT_EQ(Client(port_).get("/health").status, 200);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(stop(SIGTERM), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(ServedRun, RefusesOptionsThatCannotBe) {
  const auto says = [&](const std::string& options, const std::string& part, int code) {
    const cli::ProgramResult r = run("serve run " + options);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  says("--port 70000", "--port is 70000", 2);
  says("--slots 0", "0 slots, expected 1 to 256", 1);
  says("--context 1000", "a context of 1000 per slot", 1);
  says("--host nowhere", "expected a numeric address", 1);
  says("--precision fp64", "expected fp32 or bf16", 2);
  says("--timeout 1e10", "seconds, expected 0.001 to 1000000000", 2);
  says("--request-timeout 0", "--request-timeout is 0 seconds", 2);
  says("--drain -1", "--drain is -1 seconds, expected 0 to", 2);
}

}  // namespace
}  // namespace tessera::serve
