#include "serve/api_request.h"

#include <gtest/gtest.h>

namespace tessera::serve {
namespace {

TEST(ReadCompletion, ReadsEveryKey) {
  const ApiRequest r = read_completion(
      R"({"model":"m","prompt":["a","b"],"max_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":-1,
          "min_p":0.1,"n":2,"stop":["x","y"],"seed":-1,"stream":true,"echo":true,"logprobs":3,
          "stream_options":{"include_usage":true},"presence_penalty":1,"frequency_penalty":-1,
          "repetition_penalty":1.5,"logit_bias":{"7":-100,"8":1.5},"min_tokens":1,
          "ignore_eos":true,"stop_token_ids":[4],"user":"u","best_of":null})");
  EXPECT_EQ(r.model, "m");
  ASSERT_EQ(r.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::string>(r.prompts[1]), "b");
  EXPECT_EQ(r.max_tokens, 5);
  EXPECT_EQ(r.sampling.choice.temperature, 0.5);
  EXPECT_EQ(r.sampling.choice.top_p, 0.9);
  EXPECT_EQ(r.sampling.choice.top_k, 0);
  EXPECT_EQ(r.sampling.choice.min_p, 0.1);
  EXPECT_EQ(r.n, 2);
  EXPECT_EQ(r.stops, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(r.seed, UINT64_MAX);
  EXPECT_TRUE(r.stream && r.echo && r.include_usage && r.ignore_end);
  EXPECT_EQ(r.top_probabilities, 3);
  EXPECT_EQ(r.sampling.presence_penalty, 1);
  EXPECT_EQ(r.sampling.frequency_penalty, -1);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(r.sampling.logit_bias, (std::vector<std::pair<int32_t, double>>{{7, -100}, {8, 1.5}}));
  EXPECT_EQ(r.min_tokens, 1);
  EXPECT_EQ(r.stop_ids, (std::vector<int32_t>{4}));
}

TEST(ReadCompletion, HasTheDefaultsOfTheApi) {
  const ApiRequest r = read_completion(R"({"prompt":"a"})");
  EXPECT_EQ(r.sampling.choice.temperature, 1);
  EXPECT_EQ(r.sampling.choice.top_p, 1);
  EXPECT_EQ(r.n, 1);
  EXPECT_FALSE(r.max_tokens || r.seed || r.stream || r.echo);
  EXPECT_EQ(r.top_probabilities, -1);
}

TEST(ReadCompletion, ReadsIds) {
  const ApiRequest one = read_completion(R"({"prompt":[1,2,3]})");
  EXPECT_EQ(std::get<std::vector<int32_t>>(one.prompts.at(0)), (std::vector<int32_t>{1, 2, 3}));
  const ApiRequest two = read_completion(R"({"prompt":[[1],[2,3]]})");
  EXPECT_EQ(std::get<std::vector<int32_t>>(two.prompts.at(1)), (std::vector<int32_t>{2, 3}));
}

TEST(ReadChat, ReadsMessages) {
  const ApiRequest r = read_chat(
      R"({"messages":[{"role":"developer","content":"be kind"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],
          "max_completion_tokens":7,"logprobs":true,"top_logprobs":2,"tools":[],
          "response_format":{"type":"text"}})");
  ASSERT_EQ(r.messages.size(), 2u);
  EXPECT_EQ(r.messages[0].role, "system");
  EXPECT_EQ(r.messages[1].content, "ab");
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.top_probabilities, 2);
}

// Each is refused with status 400, and the message contains the text.
TEST(ReadRequest, NamesTheKeyThatIsWrong) {
  const auto refused = [](bool chat, const std::string& body, const std::string& param,
                          const std::string& part) {
    try {
      chat ? read_chat(body) : read_completion(body);
      ADD_FAILURE() << body;
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status(), 400);
      EXPECT_EQ(e.param(), param) << e.what();
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused(false, "", "", "not JSON");
  refused(false, "[]", "", "not a JSON object");
  refused(false, "{\"prompt\":\"a\"} x", "", "not JSON");
  refused(false, "{}", "prompt", "missing");
  refused(false, R"({"prompt":"a","temprature":1})", "temprature", "unknown key 'temprature'");
  refused(false, R"({"prompt":"a","temperature":"hot"})", "temperature", "expected a number");
  refused(false, R"({"prompt":"a","temperature":-1})", "", "temperature = -1");
  refused(false, R"({"prompt":"a","n":0})", "n", "from 1 to 16");
  refused(false, R"({"prompt":"a","n":1.5})", "n", "integer");
  refused(false, R"({"prompt":["a","b","c"],"n":9})", "n", "27 texts");
  refused(false, R"({"prompt":[]})", "prompt", "a list of strings");
  refused(false, R"({"prompt":[1,-2]})", "prompt", "from 0");
  refused(false, R"({"prompt":["a",1]})", "prompt", "a string");
  refused(false, R"({"prompt":"a","stop":[""]})", "stop", "empty");
  refused(false, R"({"prompt":"a","suffix":"b"})", "suffix", "not supported");
  refused(false, R"({"prompt":"a","best_of":2})", "best_of", "not supported");
  refused(false, R"({"prompt":"a","logit_bias":{"x":1}})", "logit_bias", "token id");
  refused(false, R"({"prompt":"a","logit_bias":{"1":101}})", "", "logit_bias = 101");
  refused(false, R"({"prompt":"a","max_tokens":99999999999})", "max_tokens", "integer");
  refused(false, R"({"prompt":"a","messages":[]})", "messages", "unknown key");
  refused(false, R"({"prompt":"a","stop_token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]})",
          "stop_token_ids", "17 ids, expected at most 16");
  refused(false, R"({"prompt":"a","stop_token_ids":1})", "stop_token_ids", "a list of token ids");
  refused(true, R"({"messages":{}})", "messages", "a list of messages");
  refused(true, R"({"messages":[]})", "messages", "0 messages, expected 1 to 4096");
  refused(true, R"({"messages":[{"role":"user"}]})", "messages[0]", "\"content\"");
  refused(true, R"({"messages":[{"role":"tool","content":"x"}]})", "messages[0].role", "assistant");
  refused(true, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
          "messages[0].content", "text");
  refused(true, R"({"messages":[{"role":"user","content":"a"}],"tools":[{}]})", "tools",
          "not supported");
  refused(true, R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json"}})",
          "response_format", "text");
}

}  // namespace
}  // namespace tessera::serve
