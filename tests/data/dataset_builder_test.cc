#include "data/dataset_builder.h"

#include <sys/resource.h>

#include <csignal>
#include <regex>

#include "data/indexed_dataset.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

class DatasetBuilderTest : public DatasetFixture {
 protected:
  BuildResult build(std::vector<std::string> inputs, int threads = 2, bool end_of_text = true,
                    DocumentOptions documents = {}) const {
    return build_dataset(ByteTokenizer(),
                         {.inputs = std::move(inputs),
                          .documents = std::move(documents),
                          .out = path("out/d"),
                          .tokenizer_name = "bytes.json",
                          .end_of_text = end_of_text,
                          .threads = threads},
                         nullptr);
  }
  std::vector<int32_t> tokens() const {
    const IndexedDataset data(path("out/d"));
    std::vector<int32_t> ids(static_cast<size_t>(data.tokens()));
    data.read(0, ids);
    return ids;
  }
};

TEST_F(DatasetBuilderTest, PutsEndOfTextBehindEachDocument) {
  const std::string file = put("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"c\"}\n");
  const BuildResult result = build({file});
  EXPECT_EQ(tokens(), (std::vector<int32_t>{'a', 'b', 256, 256, 'c', 256}));
  EXPECT_EQ(result.about.documents, 3);
  EXPECT_EQ(result.about.tokens, 6);
  EXPECT_EQ(result.about.text_bytes, 3);
  build({file}, 2, false);
  EXPECT_EQ(tokens(), (std::vector<int32_t>{'a', 'b', 'c'}));
  EXPECT_EQ(IndexedDataset(path("out/d")).length(1), 0);
}

TEST_F(DatasetBuilderTest, FilesDoNotDependOnThreads) {
  std::string lines;
  for (int i = 0; i < 60000; ++i) lines += std::string(static_cast<size_t>(i % 97), 'x') + "y\n";
  const std::string file = put("a.txt", lines);
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 7}) {
    build({file, file}, threads, true, {.split = Split::kLines});
    if (first.empty()) first = snapshot();
    EXPECT_EQ(snapshot(), first) << threads;
  }
  const IndexedDataset data(path("out/d"));
  ASSERT_EQ(data.documents(), 120000);
  for (int64_t d = 0; d < 120000; ++d) ASSERT_EQ(data.length(d), d % 60000 % 97 + 2);
}

TEST_F(DatasetBuilderTest, ALongTextIsOneDocumentThoughItIsEncodedInPieces) {
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += std::to_string(i);
  const std::string uncut(3 << 20, 'q');  // no cut in several pieces
  text += uncut + "end\xFF.";
  const BuildResult result = build({put("a.txt", text), put("b.txt", "b")});
  const IndexedDataset data(path("out/d"));
  ASSERT_EQ(data.documents(), 2);
  ASSERT_EQ(data.length(0), static_cast<int64_t>(text.size()) + 1);
  const std::vector<int32_t> ids = tokens();
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(ids[i], static_cast<unsigned char>(text[i]));
  EXPECT_EQ(ids[text.size()], 256);
  EXPECT_EQ(result.about.sources[0].documents, 1);
  EXPECT_EQ(result.about.sources[0].text_bytes, static_cast<int64_t>(text.size()));
  EXPECT_TRUE(contains(result.about.first_invalid, fmt::format(":1: byte {} ", text.size() - 2)))
      << result.about.first_invalid;
}

// Text that cannot be split is rejected before it fills the memory, alone and in a line of JSON.
TEST_F(DatasetBuilderTest, L8_TextThatCannotBeCutIsBounded) {
  const std::string uncut(size_t{65} << 20, 'q');
  const std::string whole = error_of([&] { build({put("a.txt", "some text " + uncut + " end")}); });
  EXPECT_TRUE(
      contains(whole, "a.txt:1: 67108864 bytes from byte 10 of the document have no position"))
      << whole;
  const std::string line =
      error_of([&] { build({put("a.jsonl", "{\"text\":\"" + uncut + "\"}\n")}); });
  EXPECT_TRUE(contains(line, "a.jsonl:1:1: this line is longer than 67108864 bytes")) << line;
  EXPECT_FALSE(std::filesystem::exists(path("out/d.bin")));
}

// A long document of a line is encoded in pieces, too.
TEST_F(DatasetBuilderTest, L8_ALongLineIsOneDocument) {
  std::string text;
  while (text.size() < (size_t{5} << 20)) text += "word q ";
  build({put("a.jsonl", "{\"text\":\"" + text + "\"}\n{\"text\":\"b\"}\n")});
  const IndexedDataset data(path("out/d"));
  ASSERT_EQ(data.documents(), 2);
  EXPECT_EQ(data.length(0), static_cast<int64_t>(text.size()) + 1);
  const std::vector<int32_t> ids = tokens();
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(ids[i], static_cast<unsigned char>(text[i]));
}

TEST_F(DatasetBuilderTest, B4_OtherTokensAreForeignAndMoreTokensAreNot) {
  class Renamed : public ByteTokenizer {
   public:
    explicit Renamed(int32_t first, int32_t more) : first_(first), more_(more) {}
    std::string_view token_bytes(int32_t id) const override {
      return id >= 257 ? "more" : ByteTokenizer::token_bytes(id == 0 ? first_ : id);
    }
    int32_t vocabulary_size() const override { return 257 + more_; }
    uint64_t fingerprint() const override { return 43; }

   private:
    int32_t first_, more_;
  };
  build({put("a.txt", "abc")});
  const IndexedDataset data(path("out/d"));
  EXPECT_EQ(foreign_tokenizer(data, ByteTokenizer(), "b.json"), "");
  EXPECT_EQ(foreign_tokenizer(data, Renamed(0, 0), "b.json"), "");
  EXPECT_EQ(foreign_tokenizer(data, Renamed(0, 5), "b.json"), "");
  const std::string other = foreign_tokenizer(data, Renamed(7, 5), "b.json");
  for (const char* part :
       {"bytes.json (000000000000002a, 257 tokens)", "b.json (000000000000002b, 262 tokens)"})
    EXPECT_TRUE(contains(other, part)) << other;
  // A data set of an older version, which stored no hash of its tokens: compared by fingerprint
  // alone.
  const std::string json = read_file(path("out/d.json"));
  put("out/d.json", std::regex_replace(json, std::regex("\"token_texts\": \"[0-9a-f]*\","), ""));
  EXPECT_EQ(foreign_tokenizer(data, ByteTokenizer(), "b.json"), "");
  EXPECT_NE(foreign_tokenizer(data, Renamed(0, 0), "b.json"), "");
}

TEST_F(DatasetBuilderTest, PrefixJsonSaysWhereItCameFrom) {
  const std::string a = put("a.txt", "abc\xFF z"), b = put("b.jsonl", "{\"text\":\"\xFF\"}\n");
  build({a, b});
  const auto about = read_about(IndexedDataset(path("out/d")));
  ASSERT_TRUE(about.has_value());
  EXPECT_EQ(about->tokenizer, "bytes.json");
  EXPECT_EQ(about->tokenizer_fingerprint, 42u);
  EXPECT_EQ(about->vocabulary, 257);
  EXPECT_EQ(about->end_of_text, 256);
  EXPECT_EQ(about->text_bytes, 7);
  EXPECT_EQ(about->invalid_bytes, 2);
  EXPECT_TRUE(contains(about->first_invalid, a + ":1: byte 3")) << about->first_invalid;
  ASSERT_EQ(about->sources.size(), 2u);
  EXPECT_EQ(about->sources[1].name, b);
  EXPECT_EQ(about->sources[1].documents, 1);
  EXPECT_EQ(about->sources[1].tokens, 2);
}

TEST_F(DatasetBuilderTest, DamagedAboutFilesAreNamed) {
  build({put("a.txt", "abc")});
  const std::string good = read_file(path("out/d.json"));
  for (const auto& [text, wanted] : std::map<std::string, std::string>{
           {"{", "d.json:1:"},
           {"{}", "expected 'format' with a text"},
           {"{\"format\": \"other\"}", "'format' is 'other', expected 'tessera dataset 1'"},
           {"{\"format\": \"tessera dataset 1\", \"tokenizer\": 7}",
            "expected 'tokenizer' with a text"}}) {
    put("out/d.json", text);
    const std::string message = error_of([&] { read_about(IndexedDataset(path("out/d"))); });
    EXPECT_TRUE(contains(message, wanted)) << message;
  }
  put("out/d.json", std::regex_replace(good, std::regex("\"tokens\": 4"), "\"tokens\": 5"));
  EXPECT_TRUE(contains(error_of([&] { read_about(IndexedDataset(path("out/d"))); }),
                       "describes 1 documents and 5 tokens"));
  std::filesystem::remove(path("out/d.json"));
  EXPECT_FALSE(read_about(IndexedDataset(path("out/d"))).has_value());
}

TEST_F(DatasetBuilderTest, AMistakeLeavesTheOldDatasetAlone) {
  build({put("a.txt", "abc")});
  std::string lines;
  for (int i = 0; i < 200000; ++i) lines += "{\"text\":\"line\"}\n";
  put("b.jsonl", lines + "{\"txt\":1}\n");
  put("none.jsonl", "\n\n");
  const auto before = snapshot();
  EXPECT_TRUE(
      contains(error_of([&] { build({path("b.jsonl")}); }), "b.jsonl:200001:1: this object has"));
  EXPECT_EQ(snapshot(), before);
  EXPECT_TRUE(contains(error_of([&] { build({path("none.jsonl")}); }), "no document found"));
  EXPECT_EQ(snapshot(), before);
  EXPECT_TRUE(contains(error_of([&] { build({path("missing")}); }), "there is no such file"));
  EXPECT_EQ(snapshot(), before);
}

TEST_F(DatasetBuilderTest, AFullDiskLeavesTheOldDatasetAlone) {
  build({put("a.txt", "abc")});
  put("big.txt", std::string(8 << 20, 'x'));
  const auto before = snapshot();
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4 << 20, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of([&] { build({path("big.txt")}); });
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_TRUE(contains(message, "d.bin: cannot be written: File too large")) << message;
  EXPECT_EQ(snapshot(), before);
}

}  // namespace
}  // namespace tessera::data
