// The program as people meet it: exit codes, and what goes where.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "base/file.h"
#include "base/tree.h"

namespace tessera {
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
                             ":4:5: unknown key 'optimiser.lr'. Did you mean "
                             "'optimizer.learning_rate'?\n");
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
      << "Mend it by   scripts/generate_docs.sh";
}

TEST_F(Program, TheTableOfPassesIsUpToDate) {
  const std::string page = read_file(TESSERA_SOURCE "/docs/passes.md");
  const std::string table = run("compile --passes").out;
  EXPECT_NE(page.find("\n" + table + "\n"), std::string::npos)
      << "Mend it by   scripts/generate_docs.sh";
  std::istringstream rows(table);
  for (std::string row; std::getline(rows, row);)
    if (row.starts_with("| [")) {
      const std::string name = row.substr(3, row.find(']') - 3);
      EXPECT_NE(page.find("\n## " + name + "\n"), std::string::npos) << "no section " << name;
    }
}

TEST_F(Program, AFullDiskIsNoticed) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const Result r = run("config explain >/dev/full");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("No space left on device"), std::string::npos) << r.err;
  EXPECT_EQ(run("--version >/dev/full").code, 1);
}

}  // namespace
}  // namespace tessera
