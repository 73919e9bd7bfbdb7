// Clients that we did not write, and clients that misbehave.
#include <mutex>
#include <random>
#include <thread>

#include "tests/serve/served_run.h"

namespace tessera::serve {
namespace {

TEST_F(ServedRun, ThePackageOfOpenAi) {
  const std::string python =
      std::getenv("OPENAI_PYTHON") ? std::getenv("OPENAI_PYTHON") : "python3";
  const std::string script = std::string(TESSERA_SOURCE) + "/tests/serve/clients.py";
  if (std::system((python + " -c 'import openai' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP()
        << "the package openai is not installed; set OPENAI_PYTHON to a Python that has it";
  serve();
  const cli::ProgramResult g =
      run("generate run --prompt 'the quick' --temperature 0 --max-tokens 24 --threads 1 --json");
  const std::string expected = *parse_json(g.out, "out").find("text")->as_string();
  put("expected", expected);
  const std::string line =
      fmt::format("{} {} {} \"$(cat {})\"", python, script, port_, (folder_ / "expected").string());
  EXPECT_EQ(std::system(line.c_str()), 0);
}

// Takes one of some requests apart, or puts in what does not belong there.
class Mutations {
 public:
  explicit Mutations(uint32_t seed) : random_(seed) {}
  std::string next() {
    std::string s = kSeeds[pick(std::size(kSeeds))];
    for (size_t n = pick(4); n > 0; --n) mutate(s);
    if (pick(3) > 0) return Client::posted(pick(2) ? "/v1/completions" : "/v1/chat/completions", s);
    std::string request = Client::posted("/v1/completions", s);
    for (size_t n = pick(4); n > 0; --n) mutate(request);
    return request;
  }
  size_t pick(size_t below) { return random_() % below; }

 private:
  static constexpr const char* kSeeds[] = {
      R"({"prompt":"the quick","max_tokens":3})",
      R"({"prompt":["a","b"],"n":2,"max_tokens":2,"seed":1,"stream":true})",
      R"({"prompt":[1,2,3],"max_tokens":1,"logprobs":2,"echo":true})",
      R"({"messages":[{"role":"user","content":"hello"}],"max_tokens":2,"stream":true})",
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"max_tokens":2,
          "stop":["x"],"logit_bias":{"5":-100},"top_logprobs":1,"logprobs":true})"};
  static constexpr const char* kPieces[] = {"\"",
                                            "{",
                                            "[",
                                            "]",
                                            "}",
                                            "null",
                                            "1e309",
                                            "-1",
                                            "\\u0000",
                                            "\xff",
                                            ":",
                                            ",",
                                            "99999999999999999999",
                                            "\r\n",
                                            "[[[["};

  void mutate(std::string& s) {
    const size_t at = s.empty() ? 0 : pick(s.size());
    switch (pick(4)) {
      case 0:
        s.erase(at, 1 + pick(9));
        break;
      case 1:
        s.insert(at, kPieces[pick(std::size(kPieces))]);
        break;
      case 2:
        if (!s.empty()) s[at] = static_cast<char>(random_());
        break;
      default:
        s.insert(at, s.substr(at, pick(20)));
        break;
    }
  }
  std::mt19937 random_;
};

// Whatever arrives is answered or dropped, and memory stays as planned.
TEST_F(ServedRun, RandomRequestsDoNoHarm) {
  serve({"--slots", "4", "--connections", "32", "--request-timeout", "0.05"});
  const char* const asked = std::getenv("SERVE_REQUESTS");
  const int count = asked != nullptr ? std::atoi(asked) : 10000;
  std::mutex mutex;
  std::map<int, int> statuses;
  const auto send_some = [&](uint32_t seed, int requests) {
    Mutations mutations(seed);
    for (int i = 0; i < requests; ++i) {
      Client c(port_);
      c.send(mutations.next());
      const size_t kind = mutations.pick(10);
      if (kind == 0) continue;  // leaves at once
      if (kind == 1) {
        c.receive();
        continue;
      }
      const int status = c.answer().status;
      const std::lock_guard lock(mutex);
      ++statuses[status];
    }
  };
  const auto round = [&](uint32_t seed, int requests) {
    constexpr int kThreads = 16;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { send_some(seed + t, requests / kThreads); });
    for (std::thread& t : threads) t.join();
  };
  round(1, count / 5);
  const int64_t before = resident_bytes();
  round(1000, count - count / 5);
  ASSERT_TRUE(running()) << read_file(log_);
  EXPECT_EQ(Client(port_).get("/health").status, 200);
  const Answer a = Client(port_).post("/v1/completions",
                                      R"({"prompt":"the quick","max_tokens":4,"temperature":0})");
  EXPECT_EQ(a.status, 200);
  EXPECT_LT(resident_bytes() - before, 16 << 20);
  for (int i = 0; i < 200 && metric("tessera_serve_active_texts") > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(metric("tessera_serve_active_texts"), 0);
  EXPECT_GT(statuses[400], count / 10);
  EXPECT_GT(statuses[200], 0);
  EXPECT_EQ(statuses[500], 0);
  EXPECT_EQ(stop(), 0);
}

}  // namespace
}  // namespace tessera::serve
