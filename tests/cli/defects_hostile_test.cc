// Hostile files given to the program: it rejects them with a message that names the file, and never
// ends by a signal.
#include <gtest/gtest.h>

#include "base/wire_message.h"
#include "checkpoint/index.h"
#include "tests/checkpoint/mutated_index.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kTiny = R"(
run: { name: NAME, threads: 1 }
model: { family: neox, layers: 2, hidden: 32, heads: 4, vocabulary: 257, vocabulary_multiple: 1,
         context: 64, feed_forward: 128 }
data: { tokenizer: t.json, train: [d], validation: [d], sequence_length: 32 }
batch: { global: 2, micro: 2 }
optimizer: { learning_rate: 1.0e-3 }
schedule: { kind: cosine, steps: 2, warmup_steps: 1, min_lr_ratio: 0.1 }
checkpoint: { every_steps: 2 }
)";

class Defects : public ProgramFolder {
 protected:
  void put_run(const std::string& name, const std::string& more = "") {
    std::string text = kTiny;
    text.replace(text.find("NAME"), 4, name);
    put(name + ".yaml", text + more);
  }
  void train(const std::string& name, const std::string& more = "") {
    put_run(name, more);
    const ProgramResult r = run("train " + name + ".yaml", "OMP_NUM_THREADS=1");
    ASSERT_EQ(r.code, 0) << r.err << r.out;
  }
  // Expects exit code 1 and a message with all of these parts.
  void refused(const std::string& arguments, const std::vector<std::string>& parts,
               const std::string& before = "") {
    const ProgramResult r = run(arguments, before);
    EXPECT_EQ(r.code, 1) << arguments << "\n" << r.err << r.out;
    for (const std::string& part : parts)
      EXPECT_NE((r.err + r.out).find(part), std::string::npos)
          << arguments << ": '" << part << "' is not in\n"
          << r.err << r.out;
    EXPECT_EQ(r.err.find("internal error"), std::string::npos) << r.err;
  }
  // Applies `change` to the index of a checkpoint and updates its checksum.
  void change_index(const std::string& checkpoint, const auto& change) {
    const std::string name = checkpoint + "/index.json";
    checkpoint::CheckpointIndex index = checkpoint::parse_index(get(name), name);
    change(index);
    put(name, checkpoint::to_text(index));
  }
};

std::string sentencepiece_with(const std::string& piece) {
  const auto one = [](const std::string& text, uint64_t type) {
    std::string p, out;
    append_wire_bytes(p, 1, text);
    append_wire_float(p, 2, -1);
    append_wire_varint(p, 3, type);
    append_wire_bytes(out, 1, p);
    return out;
  };
  return one("<unk>", 2) + one("</s>", 3) + one("a", 1) + one(piece, 1);
}

TEST_F(Defects, M3_LongPiecesAreRefused) {
  for (const size_t bytes : {513u, 200'000u, 2'000'000u}) {
    put("long.model", sentencepiece_with(std::string(bytes, 'x')));
    refused("tokenizer info long.model", {"long.model", "piece 3", "expected at most 512"});
  }
  put("fits.model", sentencepiece_with(std::string(512, 'x')));
  EXPECT_EQ(run("tokenizer info fits.model").code, 0);
}

TEST_F(Defects, L5_TheHeadersModelIsThatOfItsTensors) {
  train("a");
  const std::string checkpoint = "runs/a/checkpoints/2";
  const std::string whole = get(checkpoint + "/index.json");
  const auto with = [&](const char* key, Tree value) {
    put(checkpoint + "/index.json", whole);
    change_index(checkpoint,
                 [&](checkpoint::CheckpointIndex& i) { i.header.model.set(key, value); });
  };
  const std::string verbs[] = {"generate runs/a --prompt the --max-tokens 2", "eval runs/a d",
                               "checkpoint export runs/a --to hf"};
  for (const std::string& verb : verbs) {
    with("feed_forward", Tree(int64_t{16}));
    refused(verb, {"mlp.up.weight", "[16, 32]", "[128, 32]"});
    with("heads", Tree(int64_t{0}));
    refused(verb, {"model.heads"});
    with("vocabulary_multiple", Tree(int64_t{0}));
    refused(verb, {"model.vocabulary_multiple"});
    with("kv_heads", Tree(int64_t{-3}));
    refused(verb, {"model.kv_heads"});
    with("hidden", Tree((int64_t{1} << 53) - 32));
    refused(verb, {"model."});
    with("context", Tree(int64_t{1} << 40));
    refused(verb, {"model.context"});
    with("rope_theta", Tree(0.0));
    refused(verb, {"model.rope_theta"});
  }
}

// TESSERA_MUTATIONS=5000 runs more of them.
TEST_F(Defects, L5_MutatedHeadersEndInAMessage) {
  const std::string lora = "lora: { rank: 2, alpha: 4 }\n";
  train("a", "precision: fp16\n");
  train("l", lora);
  put_run("w");
  put_run("x", "precision: fp16\n");
  put_run("y", lora);
  struct Start {
    std::string run, index, resumed_by;
  };
  std::vector<Start> starts = {{"runs/a", "", "x"}, {"runs/l", "", "y"}};
  for (Start& s : starts) s.index = get(s.run + "/checkpoints/2/index.json");
  const char* const asked = std::getenv("TESSERA_MUTATIONS");
  const int count = asked != nullptr ? std::atoi(asked) : 150;
  checkpoint::IndexMutator mutator(17);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const Start& start = starts[static_cast<size_t>(i) % 2];
    const std::vector<std::string> verbs = {
        "generate runs/w --prompt the --max-tokens 2",
        "eval runs/w d",
        "checkpoint export runs/w --to hf",
        "checkpoint ls runs/w --tensors",
        "checkpoint verify runs/w",
        "checkpoint diff runs/a runs/w",
        "checkpoint average --out mean runs/a/checkpoints/2 runs/w/checkpoints/2",
        "checkpoint merge runs/w --out merged",
        "train " + start.resumed_by + ".yaml run.name=w schedule.steps=3",
        "train w.yaml run.name=v checkpoint.from=runs/w schedule.steps=1"};
    const std::string& verb = verbs[static_cast<size_t>(i / 2) % verbs.size()];
    const std::string index = mutator.mutate(start.index);
    for (const char* made : {"hf", "mean", "merged", "runs/v", "runs/w"})
      std::filesystem::remove_all(folder_ / made);
    std::filesystem::create_directories(folder_ / "runs/w/checkpoints");
    std::filesystem::copy(folder_ / start.run / "checkpoints/2", folder_ / "runs/w/checkpoints/2");
    put("runs/w/checkpoints/2/index.json", index);
    const ProgramResult r = run(verb, "ulimit -v 4000000; OMP_NUM_THREADS=1 timeout 300");
    accepted += r.code == 0 ? 1 : 0;
    // 3: weights that are not finite, where their type was changed.
    ASSERT_TRUE(r.code == 0 || r.code == 1 || r.code == 3)
        << i << ": " << verb << " ends with " << r.code << "\n"
        << r.err << r.out << "\n"
        << index;
    ASSERT_EQ(r.err.find("internal error"), std::string::npos) << verb << "\n" << r.err << index;
  }
  std::printf("%d of %d accepted\n", accepted, count);
}

TEST_F(Defects, A6_BinaryFilesAreRefusedByName) {
  const std::string zeros(4000, '\0');
  std::string noise;
  for (int i = 0; i < 4000; ++i) noise += static_cast<char>(i * 7919 >> 3);
  const std::pair<std::string, std::string> files[] = {
      {std::string("PAR1\x15\x04\x15\x80") + noise, "Parquet"},
      {std::string("PK\x03\x04") + noise, "zip"},
      {"\x7f"
       "ELF" +
           zeros,
       "ELF"},
      {"%PDF-1.7\n" + noise, "PDF"},
      {"\x93NUMPY" + zeros, "NumPy"},
      {std::string("MMIDIDX\0\0", 9) + zeros, "dataset"},
      {std::string(257, 'a') + "ustar" + zeros, "tar"},
      {noise, "--any-bytes"},
      {zeros, "--any-bytes"}};
  for (const auto& [bytes, name] : files) {
    put("x.txt", bytes);
    refused("data build --tokenizer t.json --out o x.txt", {"x.txt: is ", name});
    EXPECT_FALSE(std::filesystem::exists(folder_ / "o.bin"));
    refused("tokenizer train --out t2.json --vocabulary 300 x.txt", {"x.txt: is ", name});
  }
  refused("data build --tokenizer t.json --out o " + tessera_program(), {"ELF"});
  EXPECT_EQ(run("data build --tokenizer t.json --out o --any-bytes x.txt").code, 0);
  std::string wide;
  for (const char c : std::string(200, 'x')) wide += {c, '\0'};
  put("wide.txt", wide);
  refused("data build --tokenizer t.json --out wide wide.txt", {"UTF-16", "iconv"});
  // A few bytes that are not UTF-8 are read as they are.
  put("latin.txt",
      "Stra\xdf"
      "e, caf\xe9\n" +
          std::string(1000, 'a'));
  EXPECT_EQ(run("data build --tokenizer t.json --out latin latin.txt").code, 0);
}

TEST_F(Defects, A6_WhatAFolderLeavesOutIsNamed) {
  std::filesystem::create_directories(folder_ / "texts");
  put("texts/a.txt", "text\n");
  for (int i = 0; i < 7; ++i) put(fmt::format("texts/table{}.csv", i), "a,b\n");
  const ProgramResult r = run("data build --tokenizer t.json --out o texts");
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* part : {"7 files", "texts/table0.csv", "texts/table4.csv", "…"})
    EXPECT_NE(r.out.find(part), std::string::npos) << part << " is not in " << r.out;
  EXPECT_EQ(r.out.find("table5"), std::string::npos) << r.out;
  const ProgramResult one = run("data build --tokenizer t.json --out table texts/table0.csv");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("warning"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("--key"), std::string::npos) << one.out;
}

TEST_F(Defects, B6_L14_ImportChecksTheTokenizer) {
  train("a");
  ASSERT_EQ(run("checkpoint export runs/a --to hf").code, 0);
  ASSERT_EQ(run("checkpoint import --from hf --out whole").code, 0);
  const std::string tokenizer = get("hf/tokenizer.json");
  std::string other = tokenizer;
  const size_t at = other.find("\"BPE\"");
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 5, "\"WordPiece\"");
  const std::pair<std::string, std::string> broken[] = {
      {"{", "not JSON"}, {"{}", "'model'"}, {other, "WordPiece"}, {"[]", "tokenizer"}};
  for (const auto& [bytes, part] : broken) {
    put("hf/tokenizer.json", bytes);
    refused("checkpoint import --from hf --out new", {part, "--without-tokenizer"});
    EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
    const ProgramResult r = run("checkpoint import --from hf --out new --without-tokenizer --json");
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("\"tokenizer\":false"), std::string::npos) << r.out;
    std::filesystem::remove_all(folder_ / "new");
  }
}

TEST_F(Defects, L4_ExpressionsOfTasksAreBounded) {
  train("a");
  put("x.jsonl", "{\"q\": \"the\", \"a\": \"1\"}\n");
  const auto task = [&](const std::string& expression) {
    put("x.yaml",
        "kind: exact_match\ndata: x.jsonl\nform: \"{q}{response}\"\nresponse: \"{a}\"\nanswer: "
        "\"{a}\"\nmax_tokens: 2\nextract: '" +
            expression + "'\n");
  };
  for (const std::string& hostile :
       {std::string(100'000, '('), std::string(2000, '('), std::string("(a"), std::string("(?=a)"),
        std::string("((a{1000}){1000}){1000}")}) {
    task(hostile);
    refused("eval runs/a --task x.yaml", {"x.yaml", "regular expression"});
  }
  task(std::string(2000, '(') + "a" + std::string(2000, ')'));
  EXPECT_EQ(run("eval runs/a --task x.yaml").code, 0);
  task("([a-z]+)");
  const ProgramResult r = run("eval runs/a --task x.yaml");
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Defects, L12_NamesReachTheTerminalEscaped) {
  train("a");
  const std::string evil =
      "\x1b]0;pwned\x07\x1b[2J \xc2\x9b"
      "31m \xff";
  change_index("runs/a/checkpoints/2",
               [&](checkpoint::CheckpointIndex& i) { i.header.version = evil; });
  for (const std::string& verb :
       {std::string("checkpoint ls runs/a"), std::string("checkpoint ls runs/a --json"),
        "generate '" + evil + "' --prompt a", "train '" + evil + "'"}) {
    const ProgramResult r = run(verb);
    for (const std::string& text : {r.out, r.err}) {
      EXPECT_EQ(text.find('\x1b'), std::string::npos) << verb;
      EXPECT_EQ(text.find('\x07'), std::string::npos) << verb;
      EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << verb;
    }
  }
  EXPECT_NE(run("checkpoint ls runs/a").out.find("\\x1b]0;pwned"), std::string::npos);
}

TEST_F(Defects, L12_NamesInAClusterFileReachTheTerminalEscaped) {
  put_run("a");
  std::string cluster = read_file(TESSERA_CLUSTERS "/h100.yaml");
  for (const std::string key : {"name: h100", "name: H100-80GB"}) {
    ASSERT_NE(cluster.find(key), std::string::npos);
    cluster.replace(cluster.find(key), key.size(), R"(name: "\e]0;pwned\a\e[2J")");
  }
  put("c.yaml", cluster);
  for (const char* verb : {"plan a.yaml --cluster c.yaml", "plan a.yaml --cluster c.yaml --search",
                           "tune a.yaml --cluster c.yaml --simulate --trials 1"}) {
    const ProgramResult r = run(verb);
    EXPECT_EQ((r.out + r.err).find_first_of("\x1b\x07"), std::string::npos) << verb;
  }
  EXPECT_NE(run("plan a.yaml --cluster c.yaml").out.find("\\x1b]0;pwned"), std::string::npos);
}

TEST_F(Defects, L14_AbsurdNumbersOfThreadsAreIgnored) {
  put_run("a");
  const ProgramResult r = run("train a.yaml run.threads=0", "OMP_NUM_THREADS=1000000");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("OMP_NUM_THREADS"), std::string::npos) << r.err;
}

TEST_F(Defects, L14_TooLittleMemoryIsAnError) {
  put_run("a");
  for (int limit = 80; limit <= 240; limit += 20) {
    const ProgramResult r = run("train a.yaml run.name=m", fmt::format("ulimit -v {}000;", limit));
    EXPECT_TRUE(r.code == 0 || r.code == 1 || r.code == 127) << limit << ": " << r.code << r.err;
    std::filesystem::remove_all(folder_ / "runs/m");
    const ProgramResult b = run("data build --tokenizer t.json --threads 64 --force --out o a.txt",
                                fmt::format("ulimit -v {}000;", limit));
    EXPECT_TRUE(b.code == 0 || b.code == 1 || b.code == 127) << limit << ": " << b.code << b.err;
  }
}

}  // namespace
}  // namespace tessera::cli
