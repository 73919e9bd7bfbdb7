// `tessera serve` as clients see it.
#include <algorithm>

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
  EXPECT_EQ(c.get("/v1/completions").status, 405);
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
}

// Lines in, answers out; commands change the conversation.
TEST_F(ServedRun, ChatInLines) {
  put("lines", "the quick\n/undo\nthe quick\n/reset\n/system be brief\nthe quick\n/quit\nnever\n");
  const std::string out = run("chat run --temperature 0 --max-tokens 8 --threads 1 <'" +
                              (folder_ / "lines").string() + "'")
                              .out;
  EXPECT_GE(std::ranges::count(out, '\n'), 3) << out;
  const std::string again = run("chat run --temperature 0 --max-tokens 8 --threads 1 <'" +
                                (folder_ / "lines").string() + "'")
                                .out;
  EXPECT_EQ(out, again);
}

TEST_F(ServedRun, GenerateManyPrompts) {
  put("p.jsonl", "{\"prompt\":\"the quick\",\"id\":7}\n{\"text\":\"a lazy\"}\n");
  put("p.txt", "the quick\n\na lazy\n");
  const std::string options = " --temperature 0.8 --seed 3 --max-tokens 9 --threads 1";
  const cli::ProgramResult lines =
      run("generate run --prompts " + (folder_ / "p.jsonl").string() + " --samples 2" + options);
  ASSERT_EQ(lines.code, 0) << lines.err;
  const std::vector<Tree> all = parse_json_lines(lines.out, "out");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(std::get<int64_t>(all[0].find("id")->value), 7);
  EXPECT_EQ(*all[2].find("prompt")->as_string(), "a lazy");
  EXPECT_EQ(std::get<int64_t>(all[3].find("sample")->value), 1);
  EXPECT_NE(*all[0].find("text")->as_string(), *all[1].find("text")->as_string());
  // Each is what it is alone.
  const cli::ProgramResult alone = run("generate run --prompt 'the quick' --json" + options);
  EXPECT_EQ(*parse_json(alone.out, "out").find("text")->as_string(),
            *all[0].find("text")->as_string());
  const cli::ProgramResult plain =
      run("generate run --prompts " + (folder_ / "p.txt").string() + options);
  const std::vector<Tree> two = parse_json_lines(plain.out, "out");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(*two[1].find("text")->as_string(), *all[2].find("text")->as_string());
  put("bad.jsonl", "{\"prompt\":\"a\"}\n{\"question\":\"b\"}\n");
  EXPECT_NE(run("generate run --prompts " + (folder_ / "bad.jsonl").string()).err.find(":2:"),
            std::string::npos);
}

TEST_F(ServedRun, GenerateStopsBeforeAStopText) {
  const std::string base =
      "generate run --prompt the --temperature 0 --max-tokens 30 --threads 1 --json";
  const std::string whole = *parse_json(run(base).out, "out").find("text")->as_string();
  // A character of ASCII: the model also writes bytes that are no character.
  const auto ascii = std::find_if(whole.begin(), whole.end(),
                                  [](char c) { return c > ' ' && c != '\'' && c < 127; });
  ASSERT_NE(ascii, whole.end()) << whole;
  const std::string stop(1, *ascii);
  const Tree cut = parse_json(run(base + " --stop '" + stop + "'").out, "out");
  EXPECT_EQ(*cut.find("text")->as_string(), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(*cut.find("finish_reason")->as_string(), "stop");
}

}  // namespace
}  // namespace tessera::serve
