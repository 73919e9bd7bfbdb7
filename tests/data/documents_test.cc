#include "data/documents.h"

#include "data/json_line.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

class DocumentsTest : public DatasetFixture {
 protected:
  static std::vector<Document> all(const std::string& input, DocumentOptions options = {}) {
    DocumentStream stream(list_sources({input}), std::move(options));
    std::vector<Document> documents;
    for (Document d; stream.next(d);) documents.push_back(d);
    return documents;
  }
  static std::vector<std::string> texts(const std::string& input, DocumentOptions options = {}) {
    std::vector<std::string> out;
    for (const Document& d : all(input, std::move(options))) out.push_back(d.text);
    return out;
  }
  using Texts = std::vector<std::string>;
};

TEST_F(DocumentsTest, PlainTextIsOneDocumentUnlessSplit) {
  const std::string text = "one\ntwo\r\n\n\nthree\nfour\n\nfive";
  const std::string file = put("a.txt", text);
  EXPECT_EQ(texts(file), Texts{text});
  EXPECT_EQ(texts(file, {.split = Split::kLines}), (Texts{"one", "two", "three", "four", "five"}));
  EXPECT_EQ(texts(file, {.split = Split::kParagraphs}), (Texts{"one\ntwo", "three\nfour", "five"}));
  EXPECT_EQ(texts(put("empty.txt", "")), Texts{});
  EXPECT_EQ(texts(put("end.txt", "a\n"), {.split = Split::kLines}), Texts{"a"});
}

// WikiText has lines with one blank between its paragraphs. White space next to text is kept.
TEST_F(DocumentsTest, LinesOfWhiteSpaceAreEmpty) {
  const std::string file = put("a.txt", " \n = Title = \n \n one\n two \n\t\f\n \r\n three\n  ");
  EXPECT_EQ(texts(file, {.split = Split::kLines}),
            (Texts{" = Title = ", " one", " two ", " three"}));
  const auto paragraphs = all(file, {.split = Split::kParagraphs});
  ASSERT_EQ(paragraphs.size(), 3u);
  EXPECT_EQ(paragraphs[0].text, " = Title = ");
  EXPECT_EQ(paragraphs[0].offset, 2);
  EXPECT_EQ(paragraphs[1].text, " one\n two ");
  EXPECT_EQ(paragraphs[2].text, " three");
  EXPECT_EQ(paragraphs[2].line, 8);
  EXPECT_EQ(texts(put("blank.txt", " \n\t\n"), {.split = Split::kLines}), Texts{});
}

TEST_F(DocumentsTest, ATextComesInPiecesIfAskedFor) {
  const std::string text(1'000'000, 'x');
  const auto pieces = all(put("a.txt", text), {.piece_bytes = 400'000});
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].text.size(), 400'000u);
  EXPECT_FALSE(pieces[1].ends);
  EXPECT_EQ(pieces[1].offset, 400'000);
  EXPECT_EQ(pieces[2].text.size(), 200'000u);
  EXPECT_TRUE(pieces[2].ends);
  EXPECT_TRUE(all(put("b.txt", "xyz"), {.piece_bytes = 3})[0].ends);
}

TEST_F(DocumentsTest, KnowsWhereADocumentStarts) {
  const auto lines = all(put("a.txt", "one\n\nthree\n"), {.split = Split::kLines});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].offset, 5);
  EXPECT_EQ(lines[1].line, 3);
  const auto paragraphs = all(put("b.txt", "\n\na\nb\n\nc"), {.split = Split::kParagraphs});
  ASSERT_EQ(paragraphs.size(), 2u);
  EXPECT_EQ(paragraphs[0].offset, 2);
  EXPECT_EQ(paragraphs[0].line, 3);
  EXPECT_EQ(paragraphs[1].offset, 7);
}

TEST_F(DocumentsTest, LinesLongerThanTheBuffer) {
  std::string text;
  for (int i = 0; i < 6; ++i)
    text += std::string(static_cast<size_t>(1) << (15 + i), static_cast<char>('a' + i)) + "\n";
  const auto got = texts(put("a.txt", text), {.split = Split::kLines});
  ASSERT_EQ(got.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(got[static_cast<size_t>(i)],
              std::string(static_cast<size_t>(1) << (15 + i), static_cast<char>('a' + i)));
  }
}

TEST_F(DocumentsTest, JsonLines) {
  const std::string file = put("a.jsonl",
                               "\xEF\xBB\xBF{\"id\":1,\"text\":\"h\\u00e9\\n\\ud83d\\ude00\"}\r\n"
                               "\n  \n"
                               "{\"text\": \"\", \"text\": \"second\"}\n"
                               "{\"meta\":{\"text\":1,\"l\":[1,2.5e3,null,true]}, \"text\":\"x\"}");
  EXPECT_EQ(texts(file), (Texts{"h\xC3\xA9\n\xF0\x9F\x98\x80", "", "x"}));
  EXPECT_EQ(all(file)[1].line, 4);
  EXPECT_EQ(texts(put("b.json", "{\"body\":\"k\"}\n"), {.key = "body"}), Texts{"k"});
  EXPECT_EQ(texts(put("c.txt", "{\"text\":\"k\"}\n"), {.format = TextFormat::kJsonLines}),
            Texts{"k"});
}

TEST_F(DocumentsTest, JsonLinesKeepWhatIsNoUtf8) {
  EXPECT_EQ(
      texts(put("a.jsonl", "{\"text\":\"a\xFF\xFE\"}\n{\"text\":\"\\ud800x\\ud83d\\u0041\"}")),
      (Texts{"a\xFF\xFE",
             "\xED\xA0\x80x\xED\xA0\xBD"
             "A"}));
}

TEST_F(DocumentsTest, JsonMistakesNameFileLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"text\": \"a\" \"b\"}", ":2:14: invalid JSON: expected ',' or '}'"},
      {"{\"text\": \"abc", ":2:14: invalid JSON: the line ends inside a string"},
      {"{\"text\": \"a\"", ":2:13: invalid JSON: the line ends too early"},
      {"{\"text\": \"a\\q\"}", ":2:13: invalid JSON: unknown escape sequence"},
      {"{\"text\": tru}", ":2:10: invalid JSON: expected a value"},
      {"{\"text\": \"a\"} x", ":2:15: invalid JSON: unexpected text after"},
      {"{\"text\": 012}", ":2:13: invalid JSON: a number may not start with 0"},
      {"[\"text\"]", ":2:1: expected one JSON object"},
      {"{\"id\":1,\"body\":\"x\"}", ":2:1: this object has no key 'text'; it has 'id', 'body'"},
      {"{\"é日😀\": 1, \"text\": tru}", ":2:20: invalid JSON: expected a value"},
      {"{\"é日\xff\": 1, \"text\": 12}", ":2:20: key 'text' has the type number"},
      {"{\"text\": 12}", ":2:10: key 'text' has the type number, expected string"},
      {"{\"text\": null}", ":2:10: key 'text' has the type null, expected string"},
  };
  for (const auto& [line, wanted] : cases) {
    const std::string file = put("a.jsonl", "{\"text\":\"fine\"}\n" + line + "\n");
    const std::string message = error_of([&] { texts(file); });
    EXPECT_TRUE(contains(message, file + wanted)) << line << "\n" << message;
  }
}

TEST_F(DocumentsTest, ScannerTakesWhatJsonIs) {
  for (const char* good :
       {"{}", "[]", " [1, -0.5e+3, \"\\u00e9\\\"\"] ", "{\"a\":{\"b\":[{}]}}", "0"}) {
    EXPECT_EQ(scan_json(good, "text").error, "") << good;
  }
  for (const char* bad : {"", "{", "[1,]", "{\"a\"}", "{a:1}", "01", "1.", "1e", "-", "\"\\u12g4\"",
                          "\"\t\"", "nul", "[1 2]", "{\"a\":1,}"}) {
    EXPECT_NE(scan_json(bad, "text").error, "") << bad;
  }
  EXPECT_NE(scan_json(std::string(100000, '['), "text").error, "");
}

TEST_F(DocumentsTest, FoldersAreSortedAndSkipOtherNames) {
  put("f/b.txt", "b");
  put("f/a/z.jsonl", "{\"text\":\"z\"}");
  put("f/a.md", "m");
  put("f/.hidden.txt", "h");
  put("f/.git/x.txt", "h");
  put("f/train.idx", "no");
  const SourceList list = list_sources({path("f")});
  EXPECT_EQ(list.files, (Texts{path("f/a.md"), path("f/a/z.jsonl"), path("f/b.txt")}));
  EXPECT_EQ(list.skipped, 1);
  EXPECT_EQ(texts(path("f")), (Texts{"m", "z", "b"}));
}

TEST_F(DocumentsTest, RefusesWhatIsNotThere) {
  put("f/train.idx", "no");
  EXPECT_TRUE(contains(error_of([&] { list_sources({path("none")}); }), "there is no such file"));
  EXPECT_TRUE(contains(error_of([&] { list_sources({path("f")}); }), "no text in this folder"));
  EXPECT_TRUE(contains(error_of([&] { list_sources({"-", "-"}); }), "given more than once"));
}

}  // namespace
}  // namespace tessera::data
