// The program as people meet it: exit codes, and what goes where.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"

namespace tessera::cli {
namespace {

struct Result {
  int code = -1;
  std::string out, err;
};

class Program : public testing::Test {
 protected:
  Program()
      : folder_(std::filesystem::temp_directory_path() /
                ("tessera_cli_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Program() override { std::filesystem::remove_all(folder_); }

  Result run(const std::string& arguments) const {
    const std::string err = (folder_ / "err").string();
    FILE* pipe = popen((TESSERA_PROGRAM " " + arguments + " 2>" + err).c_str(), "r");
    Result r;
    std::array<char, 4096> piece;
    for (size_t n; (n = fread(piece.data(), 1, piece.size(), pipe)) > 0;)
      r.out.append(piece.data(), n);
    const int status = pclose(pipe);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r.err = read_file(err);
    return r;
  }
  std::string file(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

constexpr const char* kRun =
    "model: { layers: 4, hidden: 128, heads: 8, context: 128 }\ndata: { train: [a] }\n";

TEST_F(Program, HelpAndVersionAreOk) {
  EXPECT_EQ(run("--version").out.rfind("tessera ", 0), 0u);
  EXPECT_NE(run("doctor").out.find(run("--version").out.substr(0, run("--version").out.size() - 1)),
            std::string::npos);
  for (const char* a : {"--help", "config --help", "config print --help", "config explain --help",
                        "doctor --help", "doctor"}) {
    const Result r = run(a);
    EXPECT_EQ(r.code, 0) << a;
    EXPECT_LE(std::count(r.out.begin(), r.out.end(), '\n'), 40) << a << " does not fit on a screen";
    EXPECT_EQ(r.err, "") << a;
  }
}

TEST_F(Program, AWrongCommandLineIsTwo) {
  for (const char* a :
       {"", "confg", "config", "config prnt", "config print", "config explain --bad"}) {
    const Result r = run(a);
    EXPECT_EQ(r.code, 2) << a;
    EXPECT_EQ(r.err.rfind("tessera: ", 0), 0u) << a;
    EXPECT_EQ(r.out, "") << a;
  }
  EXPECT_NE(run("confg").err.find("Did you mean 'tessera config'?"), std::string::npos);
}

TEST_F(Program, AWrongWorldIsOne) {
  const Result missing = run("config print " + (folder_ / "none.yaml").string());
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("none.yaml: cannot be opened: No such file or directory"),
            std::string::npos);
  const std::string path = file("run.yaml", std::string(kRun) + "optimiser:\n    lr: 1\n");
  const Result unknown = run("config print " + path);
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.err, "tessera: " + path +
                             ":4:5: unknown key 'optimiser.lr' (Megatron-LM, DeepSpeed, "
                             "torchtitan): use optimizer.learning_rate\n");
  const std::string near = file("near.yaml", std::string(kRun) + "optimiser:\n    eta: 1\n");
  EXPECT_NE(run("config print " + near).err.find("near.yaml:4:5: unknown key 'optimiser.eta'. "),
            std::string::npos);
  EXPECT_EQ(unknown.out, "");
}

TEST_F(Program, PrintedRunsReadBackTheSame) {
  const std::string path = file("run.yaml", kRun);
  const Result first = run("config print " + path + " batch.global=8");
  ASSERT_EQ(first.code, 0) << first.err;
  const Result second = run("config print " + file("again.yaml", first.out));
  EXPECT_EQ(first.out, second.out);
  const Tree json = parse_json(run("config print --json " + path).out, "out");
  EXPECT_EQ(std::get<int64_t>(json.find("model")->find("feed_forward")->value), 512);
}

TEST_F(Program, TheDoctorKnowsTheMachine) {
  const Tree t = parse_json(run("doctor --json").out, "doctor");
  EXPECT_GE(std::get<int64_t>(t.find("cpu")->find("cores")->value), 1);
  EXPECT_GT(std::get<int64_t>(t.find("cpu")->find("memory_bytes")->value), 0);
  EXPECT_FALSE(t.find("findings")->as_list()->empty());
}

TEST_F(Program, PresetsAreKnown) {
  const Result r = run("config print " +
                       file("run.yaml", "model: { preset: pythia-70m }\ndata: { train: [a] }\n"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("hidden: 512"), std::string::npos);
  EXPECT_NE(run("config print " + file("run.yaml", "model: { preset: pythia70m }"))
                .err.find("Did you mean 'pythia-70m'?"),
            std::string::npos);
}

TEST_F(Program, TheDocumentationIsUpToDate) {
  EXPECT_EQ(run("config explain --markdown").out,
            read_file(TESSERA_SOURCE "/docs/configuration.md"))
      << "Fix it with   scripts/generate_docs.sh";
}

TEST_F(Program, TheTableOfPassesIsUpToDate) {
  const std::string page = read_file(TESSERA_SOURCE "/docs/passes.md");
  const std::string table = run("compile --passes").out;
  EXPECT_NE(page.find("\n" + table + "\n"), std::string::npos)
      << "Fix it with   scripts/generate_docs.sh";
  std::istringstream rows(table);
  for (std::string row; std::getline(rows, row);)
    if (row.starts_with("| [")) {
      const std::string name = row.substr(3, row.find(']') - 3);
      EXPECT_NE(page.find("\n## " + name + "\n"), std::string::npos) << "no section " << name;
    }
}

constexpr const char* kSmall =
    "model: { layers: 2, hidden: 32, heads: 2, vocabulary: 64, context: 16 }\n"
    "data: { train: [none], sequence_length: 16 }\nbatch: { global: 4, micro: 2 }\n"
    "precision: fp32\nrun: { threads: 1 }\n";

TEST_F(Program, CompileShowsTheStateAfterAPass) {
  const std::string path = file("run.yaml", kSmall);
  const Result graph = run("compile " + path + " --after shard");
  EXPECT_EQ(graph.code, 0) << graph.err;
  EXPECT_EQ(graph.out.rfind("graph sequences=2 tokens=16", 0), 0u) << graph.out.substr(0, 80);
  const std::string placed = run("compile " + path + " --after assign_buffers").out;
  EXPECT_EQ(placed, run("compile " + path + " --text").out);
  EXPECT_EQ(run("compile --check-text " + file("placed.txt", placed)).code, 0);
  EXPECT_NE(run("compile " + path + " --after decode").err.find("pass decode is skipped"),
            std::string::npos);
  const Result wrong = run("compile " + path + " --after sharding");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("there is no such pass. Expected one of forward, add_adapters,"),
            std::string::npos)
      << wrong.err;
  EXPECT_EQ(run("compile").code, 2);
}

TEST_F(Program, CompileHasOneModeAtATime) {
  const std::string path = file("run.yaml", kSmall);
  const Result two = run("compile " + path + " --after shard --timings");
  EXPECT_EQ(two.code, 2);
  EXPECT_NE(two.err.find("--after and --timings cannot be combined"), std::string::npos) << two.err;
  EXPECT_EQ(run("compile " + path + " --timings --print").code, 2);
  EXPECT_NE(run("compile --passes --json").err.find("--passes does not support --json"),
            std::string::npos);
  EXPECT_EQ(run("compile " + path + " --print --stages --check").code, 0);
}

TEST_F(Program, CompileListsTheTimeOfEachPass) {
  const std::string path = file("run.yaml", kSmall);
  const Result text = run("compile " + path + " --timings");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("differentiate "), std::string::npos);
  EXPECT_NE(text.out.find("all passes "), std::string::npos);
  EXPECT_EQ(text.out.find("scale_loss"), std::string::npos);
  EXPECT_NE(run("compile " + path + " --timings --json").out.find("\"assign_buffers\":"),
            std::string::npos);
}

TEST_F(Program, APrintedProgramIsCheckedWithoutItsRun) {
  const std::string path = file("run.yaml", kSmall);
  const std::string text = run("compile " + path + " --text").out;
  const Result good = run("compile --check-text " + file("good.txt", text));
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("data flow verified, no deadlock"), std::string::npos);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return file("bad.txt", other.replace(at, from.size(), to));
  };
  const auto expect_fault = [&](const std::string& bad, const std::string& message) {
    const Result r = run("compile --check-text " + bad);
    EXPECT_EQ(r.code, 1) << message;
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
  };
  expect_fault(changed(" first_write=head.gradients", " first_write=-"),
               "which no call before it wrote");
  expect_fault(changed("= matmul (", "= matmult ("), "bad.txt:");
  expect_fault(changed("\ncalls\n", "\ncall\n"), "bad.txt:");
  expect_fault(changed("head.weight f32 [128, 32]", "head.weight f32 [128, 33]"),
               "the program is damaged");
  expect_fault(file("bad.txt", text.substr(0, text.size() / 2)), "bad.txt:");
  expect_fault(file("bad.txt", ""), "bad.txt:1:");
  expect_fault((folder_ / "missing.txt").string(), "missing.txt");
  EXPECT_EQ(run("compile " + path + " --check-text " + file("good.txt", text)).code, 2);
}

TEST_F(Program, AllStagesOfAPipelineAreCheckedTogether) {
  const std::string path = file("run.yaml", kSmall);
  const auto stage = [&](int rank) {
    const std::string text =
        run(fmt::format("compile {} layout.pipeline=2 --text --rank {}", path, rank)).out;
    return file(fmt::format("stage{}.txt", rank), text);
  };
  const std::string first = stage(0), last = stage(1);
  const Result both = run("compile --check-text " + last + " --check-text " + first);
  EXPECT_EQ(both.code, 0) << both.err;
  const Result one = run("compile --check-text " + first);
  EXPECT_EQ(one.code, 1);
  EXPECT_NE(one.err.find("got 1 files for a pipeline of 2 stages"), std::string::npos) << one.err;
  const Result twice = run("compile --check-text " + first + " --check-text " + first);
  EXPECT_NE(twice.err.find("is of stage 0, as is "), std::string::npos) << twice.err;
}

TEST_F(Program, AFullDiskIsNoticed) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const Result r = run("config explain >/dev/full");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("No space left on device"), std::string::npos) << r.err;
  EXPECT_EQ(run("--version >/dev/full").code, 1);
}

TEST_F(Program, AClosedOutputIsNoticed) {
  for (const char* command : {"--version", "--help", "config explain", "train --help"}) {
    SCOPED_TRACE(command);
    const Result closed = run(fmt::format("{} >&-", command));
    EXPECT_EQ(closed.code, 1);
    EXPECT_NE(closed.err.find("tessera: standard output cannot be written: "), std::string::npos)
        << closed.err;
    // A reader that has read enough is not an error.
    const std::string messages = file("messages", "");
    run(fmt::format("{} 2>{} | head -c 1", command, messages));
    EXPECT_EQ(read_file(messages), "");
  }
}

}  // namespace
}  // namespace tessera::cli
