// tessera data as people meet it: what it prints, and what a fault in the world makes of it. Every
// fault must give its exit code, name its place, say what was found and wanted and what to do, and
// leave every file as it was.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

using Result = ProgramResult;

class DataProgram : public testing::Test {
 protected:
  DataProgram() {
    std::string name = std::filesystem::temp_directory_path() / "tessera_data.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder for the test";
    folder_ = name;
    put("t.json", byte_tokenizer());
    put("a.txt", "one text\n");
  }
  ~DataProgram() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
  }
  // Runs in the folder, so that messages name files as they were given.
  Result run(const std::string& arguments, const std::string& before = "") const {
    const std::string err = folder_.string() + ".err";
    const std::string line = fmt::format("cd {}; {} {} data {} 2>{}", folder_.string(), before,
                                         TESSERA_PROGRAM, arguments, err);
    FILE* pipe = popen(line.c_str(), "r");
    Result r;
    std::array<char, 4096> piece;
    for (size_t n; (n = fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
      r.out.append(piece.data(), n);
    }
    const int status = pclose(pipe);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r.err = read_file(err);
    std::filesystem::remove(err);
    return r;
  }
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
    }
    return files;
  }
  void expect_fault(const std::string& arguments, int code, const std::vector<std::string>& parts,
                    const std::string& before = "") const {
    const auto files = snapshot();
    const Result r = run(arguments, before);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_EQ(r.out, "") << arguments;
    EXPECT_EQ(r.err.rfind("tessera: ", 0), 0u) << r.err;
    for (const std::string& part : parts) {
      EXPECT_NE(r.err.find(part), std::string::npos)
          << arguments << "\nwanted: " << part << "\nin: " << r.err;
    }
    EXPECT_TRUE(snapshot() == files) << arguments << " changed a file";
  }

  std::filesystem::path folder_;
};

TEST_F(DataProgram, BuildsInspectsAndExplains) {
  put("b.jsonl", "{\"text\":\"second\"}\n{\"text\":\"third\"}\n");
  const Result built = run("build --tokenizer t.json --out new/d a.txt b.jsonl --json");
  ASSERT_EQ(built.code, 0) << built.err;
  const Tree summary = parse_json(built.out, "output");
  EXPECT_EQ(std::get<int64_t>(summary.find("documents")->value), 3);
  EXPECT_EQ(std::get<int64_t>(summary.find("tokens")->value), 9 + 6 + 5 + 3);
  EXPECT_EQ(std::get<int64_t>(summary.find("text_bytes")->value), 9 + 6 + 5);

  const Result inspected = run("inspect new/d");
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("new/d: 3 documents, 23 tokens of type u16"), std::string::npos)
      << inspected.out;
  EXPECT_EQ(run("inspect new/d --document 2 --tokenizer t.json").out, "third<|endoftext|>\n");

  const Result told = run("explain new/d --sample 0 --sequence-length 22 --locate --json");
  ASSERT_EQ(told.code, 0) << told.err;
  const Tree sample = parse_json(told.out, "output");
  ASSERT_EQ(sample.find("tokens")->as_list()->size(), 23u);
  std::string all;
  for (const Tree& piece : *sample.find("pieces")->as_list()) {
    const std::string text = *piece.find("text")->as_string();
    all += text + "|";
    if (text == "third") {
      EXPECT_EQ(*piece.find("source")->as_string(), "b.jsonl");
      EXPECT_EQ(std::get<int64_t>(piece.find("line")->value), 2);
      EXPECT_EQ(std::get<int64_t>(piece.find("bytes_to")->value), 5);
    }
  }
  EXPECT_EQ(all.size(), 9u + 6 + 5 + 3);
}

TEST_F(DataProgram, ExplainsTheStepsOfARun) {
  ASSERT_EQ(run("build --tokenizer t.json --out d a.txt a.txt a.txt").code, 0);
  put("run.yaml",
      "model: { layers: 1, hidden: 16, heads: 2, vocabulary: 257, context: 8 }\n"
      "data: { tokenizer: t.json, train: [d], sequence_length: 4 }\nbatch: { global: 3, micro: 1 "
      "}\n");
  const Result r = run("explain run.yaml --step 2 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const Tree step = parse_json(r.out, "output");
  EXPECT_EQ(std::get<int64_t>(step.find("step")->value), 2);
  const Tree::List& samples = *step.find("samples")->as_list();
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(std::get<int64_t>(samples[0].find("sample")->value), 3);
  EXPECT_EQ(samples[0].find("tokens")->as_list()->size(), 5u);
  expect_fault("explain run.yaml --step 5 schedule.steps=4", 2,
               {"--step is 5, expected 1 to 4 (the last step)"});
  expect_fault("explain run.yaml --sample 12 schedule.steps=4", 2,
               {"--sample is 12, expected 0 to 11 (the last sample)"});
  expect_fault("explain run.yaml --step 1 --json model.vocabulary=100", 1,
               {"d.bin: token", "outside the vocabulary of 100", "built with another tokenizer"});
}

TEST_F(DataProgram, FaultsOfTheInput) {
  ASSERT_EQ(run("build --tokenizer t.json --out d a.txt").code, 0);
  const std::string build = "build --tokenizer t.json --out d ";
  expect_fault(build + "d.bin", 1, {"d.bin: is an input, but the output d.bin would replace it"});
  expect_fault("build --tokenizer t.json --out a.txt/d a.txt", 1,
               {"a.txt/d.bin: cannot be created, since", "a.txt is a file"});
  put("bad.jsonl", "{\"text\":\"x\"}\n{\"text\" \"x\"}\n");
  put("key.jsonl", "{\"body\":\"x\"}\n");
  put("type.jsonl", "{\"text\":[1]}\n");
  put("plain.gz", "no gzip");
  put("empty.txt", "");
  std::filesystem::create_directory(folder_ / "folder");
  put("folder/picture.png", "x");
  expect_fault(build + "none.txt", 1, {"none.txt: there is no such file or folder"});
  expect_fault(build + "bad.jsonl", 1, {"bad.jsonl:2:9: invalid JSON: expected ':' after a key"});
  expect_fault(build + "key.jsonl", 1,
               {"key.jsonl:1:1: this object has no key 'text'", "'body'", "--key"});
  expect_fault(build + "type.jsonl", 1,
               {"type.jsonl:1:9: key 'text' has the type list, expected string"});
  expect_fault(build + "plain.gz", 1, {"plain.gz: is not gzip data"});
  expect_fault(build + "empty.txt", 1, {"empty.txt: no document found, expected text"});
  expect_fault(build + "folder", 1,
               {"folder: no text in this folder, expected files whose names end"});
  expect_fault("build --tokenizer none.json --out d a.txt", 1, {"none.json"});
  expect_fault("build --tokenizer a.txt --out d a.txt", 1, {"a.txt: is not a tokenizer"});
  expect_fault("build --tokenizer t.json --out a.txt/d a.txt", 1, {"a.txt"});
}

TEST_F(DataProgram, TheFirstSignalEndsABuildThatWaitsForItsInput) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const std::string stop = "timeout --preserve-status -k 8 -s INT 1";
  for (const std::string& input : {std::string("sleep 0 |"),         // the FIFO has no writer
                                   std::string("sleep 3 >fifo | "),  // a writer without bytes
                                   std::string("(echo text; sleep 3) >fifo | ")}) {
    SCOPED_TRACE(input);
    const Result r = run("build --tokenizer t.json --out d fifo", input + stop);
    EXPECT_EQ(r.code, 130) << r.err;
    EXPECT_NE(r.err.find("stopped by a signal: d was not written"), std::string::npos) << r.err;
  }
  const Result r = run("build --tokenizer t.json --out d -", "sleep 3 | " + stop);
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_EQ(run("build --tokenizer t.json --out d fifo", "cat a.txt >fifo |").code, 0);
}

TEST_F(DataProgram, AFullDisk) {
  ASSERT_EQ(run("build --tokenizer t.json --out d a.txt").code, 0);
  put("long.txt", std::string(300'000, 'x'));
  expect_fault("build --force --tokenizer t.json --out d long.txt", 1,
               {"d.bin: cannot be written: File too large"}, "ulimit -f 100; trap '' XFSZ;");
}

TEST_F(DataProgram, FaultsOfADataset) {
  ASSERT_EQ(run("build --tokenizer t.json --out d a.txt").code, 0);
  const std::string idx = read_file(folder_ / "d.idx"), bin = read_file(folder_ / "d.bin");
  expect_fault("inspect none", 1, {"none.idx"});
  expect_fault("inspect d --document 1", 1, {"d.idx: there is no document 1, expected 0 to 0"});
  expect_fault(
      "explain d --sequence-length 100", 1,
      {"d.bin: 1 documents with 10 tokens are too few for a sample of 100 + 1 tokens", "Use"});
  put("d.bin", bin.substr(0, 6));
  expect_fault("inspect d", 1,
               {"d.bin: has 6 bytes, but d.idx describes 20", "truncated", "again"});
  put("d.bin", bin);
  put("d.idx", idx.substr(0, 40));
  expect_fault("inspect d", 1,
               {"d.idx: the header has 1 sequences", "the 40 bytes of the file", "copy it again"});
  put("d.idx", std::string("X").append(idx, 1));
  expect_fault("inspect d", 1, {"d.idx: does not start with 'MMIDIDX'"});
  put("d.idx", idx);
  put("d.json", "{\"format\": 3}");
  expect_fault("inspect d", 1, {"d.json:1:", "expected 'format' with a text", "remove this file"});
}

TEST_F(DataProgram, WrongCommandLines) {
  expect_fault("build --tokenizer t.json --out d a.txt --split words", 2,
               {"--split is 'words', expected none|lines|paragraphs"});
  expect_fault("build --tokenizer t.json --out d a.txt --threads -1", 2,
               {"--threads is -1, expected 0"});
  expect_fault("build --out d a.txt", 2, {"--tokenizer"});
  expect_fault("buld", 2, {"Did you mean 'tessera data build'?"});
  for (const char* help : {"--help", "build --help", "inspect --help", "explain --help"}) {
    const Result r = run(help);
    EXPECT_EQ(r.code, 0) << help;
    EXPECT_LE(std::count(r.out.begin(), r.out.end(), '\n'), 40) << help;
  }
}

}  // namespace
}  // namespace tessera::cli
