// `tessera chat` and `tessera generate` on the run that the tests of the server use.
#include <algorithm>

#include "tests/serve/served_run.h"

namespace tessera::serve {
namespace {

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

// In a file, only a line that is a command is one.
TEST_F(ServedRun, ChatAnswersALineThatBeginsWithASlash) {
  put("lines", "/usr/bin/x is what?\n");
  const cli::ProgramResult r = run("chat run --temperature 0 --max-tokens 3 --threads 1 < lines");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err.find("unknown command"), std::string::npos) << r.err;
  EXPECT_GT(r.out.size(), 1u) << r.out;
}

// Returns whether a process has a handler for a signal.
bool catches(pid_t pid, int signal) {
  const std::string path = fmt::format("/proc/{}/status", pid);
  std::FILE* const f = std::fopen(path.c_str(), "r");
  if (f == nullptr) return false;
  unsigned long long caught = 0;
  char line[256];
  while (std::fgets(line, sizeof line, f) != nullptr) std::sscanf(line, "SigCgt: %llx", &caught);
  std::fclose(f);
  return (caught >> (signal - 1) & 1) != 0;
}

// Reading the prompt takes seconds, and the program catches signals from its first chunk on.
TEST_F(ServedRun, SignalsEndTheReadingOfAPrompt) {
  const cli::ProgramResult trained = run(
      "train run.yaml model.hidden=256 model.context=16384 schedule.steps=1 run.directory=wide");
  ASSERT_EQ(trained.code, 0) << trained.err;
  put("lines", std::string(16000, 'x') + "\n");
  const auto status_after = [&](int signal) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::dup2(::open((folder_ / "lines").c_str(), O_RDONLY), STDIN_FILENO);
      ::dup2(::open((folder_ / "answers").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600),
             STDOUT_FILENO);
      const std::string program = cli::tessera_program(), model = folder_ / "wide";
      ::execl(program.c_str(), program.c_str(), "chat", model.c_str(), "--threads", "1", nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 6000 && !catches(pid, SIGINT); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(pid, signal);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  };
  // Ctrl-C ends only the answer, which is empty.
  const int interrupted = status_after(SIGINT);
  EXPECT_TRUE(WIFEXITED(interrupted) && WEXITSTATUS(interrupted) == 0) << interrupted;
  EXPECT_EQ(get("answers"), "\n");
  const int terminated = status_after(SIGTERM);
  EXPECT_TRUE(WIFSIGNALED(terminated) && WTERMSIG(terminated) == SIGTERM) << terminated;
}

TEST_F(ServedRun, ChatFailsIfItsAnswersCannotBeWritten) {
  put("lines", "the quick\nthe quick\n");
  const cli::ProgramResult r =
      run("chat run --temperature 0 --max-tokens 8 --threads 1 < lines > /dev/full");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("standard output cannot be written: No space left"), std::string::npos)
      << r.err;
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

// A prompt that does not fit costs only its own line.
TEST_F(ServedRun, GenerateNamesThePromptsThatDoNotFit) {
  const std::string wide(260, 'x'), fits = "{\"prompt\":\"the quick\",\"id\":1}\n";
  const std::string long_line = fmt::format("{{\"prompt\":\"{}\",\"id\":2}}\n", wide);
  const std::string options = " --temperature 0 --max-tokens 4 --threads 1";
  put("p.jsonl", fits + long_line + fits);
  const cli::ProgramResult r = run("generate run --prompts p.jsonl" + options);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("1 of 3 texts were not generated"), std::string::npos) << r.err;
  const std::vector<Tree> lines = parse_json_lines(r.out, "out");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(*lines[0].find("text")->as_string(), *lines[2].find("text")->as_string());
  const std::string& error = *lines[1].find("error")->as_string();
  EXPECT_TRUE(error.starts_with("p.jsonl:2: a prompt of 260 tokens and 4 new tokens")) << error;
  EXPECT_EQ(std::get<int64_t>(lines[1].find("id")->value), 2);
  EXPECT_EQ(lines[1].find("text"), nullptr);
  // Without another text there is nothing to print.
  put("p.txt", "\n" + wide + "\n");
  const cli::ProgramResult none = run("generate run --prompts p.txt" + options);
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(none.out.empty()) << none.out;
  EXPECT_NE(none.err.find("p.txt:2: a prompt of 260 tokens"), std::string::npos) << none.err;
}

// No member of a line is lost without a word.
TEST_F(ServedRun, GenerateRefusesMembersWithTheNameOfAResult) {
  for (const char* name : {"index", "text", "tokens", "finish_reason", "error"}) {
    put("p.jsonl", fmt::format("{{\"prompt\":\"a\"}}\n{{\"prompt\":\"a\",\"{}\":1}}\n", name));
    const cli::ProgramResult r = run("generate run --prompts p.jsonl");
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find(fmt::format("p.jsonl:2: the prompt is in \"prompt\", and the output has "
                                     "its own \"{0}\". Give that member another name, such as "
                                     "\"input_{0}\"",
                                     name)),
              std::string::npos)
        << r.err;
  }
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
