// tessera tokenizer info | decode: describes tokenizer files, and turns ids into text. The
// description is that of the file as it was understood, not a copy of its fields, so it shows if a
// step of the file has an unexpected meaning.
#include "cli/verbs.h"

#include <charconv>
#include <fstream>

#include "base/config.h"
#include "base/tree.h"
#include "cli/show.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"

namespace tessera::cli {
namespace {

const char* kind_of(const data::BpeDescription& bpe) {
  if (bpe.byte_level) return "byte-level BPE";
  return bpe.byte_fallback ? "BPE with byte fallback" : "BPE";
}

// Returns the kinds of steps, such as "Prepend, Replace".
template <class Step>
std::string names_of(const std::vector<Step>& steps) {
  std::string all;
  for (const Step& step : steps) all += (all.empty() ? "" : ", ") + name_of_entry(step.kind);
  return all;
}

Tree about(const std::string& path, const data::BpeDescription& bpe,
           const data::Tokenizer& tokenizer) {
  Tree t;
  t.set("path", Tree(path));
  t.set("kind", Tree(std::string(kind_of(bpe))));
  t.set("vocabulary", Tree(int64_t{tokenizer.vocabulary_size()}));
  t.set("merges", Tree(std::ssize(bpe.merges)));
  t.set("added_tokens", Tree(std::ssize(bpe.added_tokens)));
  t.set("normalizer", bpe.normalizer.empty() ? Tree() : Tree(names_of(bpe.normalizer)));
  t.set("pre_tokenizer", bpe.splits.empty() ? Tree() : Tree(names_of(bpe.splits)));
  t.set("split", Tree(name_of_entry(bpe.words)));
  t.set("add_prefix_space", Tree(bpe.add_prefix_space));
  const auto end = tokenizer.end_of_text();
  t.set("end_of_text", end ? Tree(int64_t{*end}) : Tree());
  t.set("fingerprint", Tree(fmt::format("{:016x}", tokenizer.fingerprint())));
  return t;
}

const char* words_in_text(data::PretokenizerKind words) {
  switch (words) {
    case data::PretokenizerKind::kOff:
      return "not split into words";
    case data::PretokenizerKind::kGpt2:
      return "split into words as GPT-2 does";
    case data::PretokenizerKind::kQwen2:
      return "split into words as Qwen2 does";
    case data::PretokenizerKind::kLlama3:
      return "split into words as LLaMA 3 does";
  }
  return "";
}

void print_about(const std::string& path, const data::BpeDescription& bpe,
                 const data::Tokenizer& tokenizer) {
  show("{}: {}\n", path, kind_of(bpe));
  show("  vocabulary   {} ({} merges, added tokens: {})\n",
       format_count(tokenizer.vocabulary_size()), format_count(std::ssize(bpe.merges)),
       format_count(std::ssize(bpe.added_tokens)));
  const std::string normalizer = names_of(bpe.normalizer), splits = names_of(bpe.splits);
  show("  text         {}, {}{}{}\n",
       normalizer.empty() ? "not normalized" : "normalized with " + normalizer,
       splits.empty() ? "" : "split with " + splits + ", ", words_in_text(bpe.words),
       bpe.add_prefix_space ? ", with a space prepended" : "");
  const auto end = tokenizer.end_of_text();
  show("  end of text  {}\n",
       end ? fmt::format("{} = {}", tokenizer.token_bytes(*end), *end) : "none");
  for (const data::AddedToken& token : bpe.added_tokens) {
    if (token.special) show("  special      '{}' = {}\n", token.content, token.id);
  }
}

Tree about(const std::string& path, const data::SentencePieceTokenizer& tokenizer) {
  const data::SentencePieceModel& model = tokenizer.model();
  const auto id = [&](const std::string& name) {
    const int32_t found = model.control_id(name);
    return found < 0 ? Tree() : Tree(int64_t{found});
  };
  Tree t;
  t.set("path", Tree(path));
  t.set("kind", Tree("SentencePiece " + name_of_entry(model.kind)));
  t.set("vocabulary", Tree(int64_t{tokenizer.vocabulary_size()}));
  t.set("normalizer", Tree(model.normalizer));
  t.set("byte_fallback", Tree(model.byte_fallback));
  t.set("sentinels", Tree(int64_t{tokenizer.sentinels()}));
  t.set("pad", id(model.pad_name));
  t.set("begin", id(model.begin_name));
  t.set("end_of_text", id(model.end_name));
  t.set("fingerprint", Tree(fmt::format("{:016x}", tokenizer.fingerprint())));
  return t;
}

void print_about(const std::string& path, const data::SentencePieceTokenizer& tokenizer) {
  const data::SentencePieceModel& model = tokenizer.model();
  show("{}: SentencePiece {}\n", path, name_of_entry(model.kind));
  show("  vocabulary   {}{}\n", format_count(tokenizer.vocabulary_size()),
       model.byte_fallback ? ", with 256 bytes" : "");
  show("  text         normalized with {}{}{}\n",
       model.normalizer.empty() ? "its own rules" : model.normalizer,
       model.remove_extra_spaces ? ", repeated spaces merged" : "",
       model.add_dummy_prefix ? ", with a space prepended" : "");
  for (const std::string& name : {model.pad_name, model.begin_name, model.end_name}) {
    const int32_t id = model.control_id(name);
    if (id >= 0) show("  special      '{}' = {}\n", name, id);
  }
  if (tokenizer.sentinels() > 0) {
    const int32_t last = tokenizer.vocabulary_size() - 1;
    show("  sentinels    <extra_id_0> = {} down to <extra_id_{}> = {}\n", last,
         tokenizer.sentinels() - 1, last - tokenizer.sentinels() + 1);
  }
}

}  // namespace

int tokenizer_info(Args args) {
  std::string path;
  bool json = false;
  Arguments arguments("tokenizer info", "Describe a tokenizer file.",
                      "tessera tokenizer info t.json");
  arguments.required(path, "T", "a tokenizer.json or SentencePiece model, or a folder with one");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  const std::string file = data::tokenizer_file(path).string();
  const auto tokenizer = data::load_tokenizer(file);
  const auto print = [&](const auto&... what) {
    if (json) {
      fmt::print("{}\n", to_json(about(file, what...)));
    } else {
      print_about(file, what...);
    }
  };
  if (const auto* pieces = dynamic_cast<const data::SentencePieceTokenizer*>(tokenizer.get()))
    print(*pieces);
  else
    print(data::read_tokenizer_json(read_file(file), file), *tokenizer);
  return 0;
}

namespace {

// Reads ids that are separated by spaces or commas.
std::vector<int32_t> ids_of_line(const std::string& line, const std::string& file, int64_t number) {
  std::vector<int32_t> ids;
  const char *at = line.data(), *end = at + line.size();
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == '\r') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc())
      throw Error("{}:{}:{}: expected token ids, separated by spaces or commas", file, number,
                  at - line.data() + 1);
    ids.push_back(id);
    at = next;
  }
  return ids;
}

}  // namespace

int tokenizer_decode(Args args) {
  std::string tokenizer, path;
  bool json = false;
  Arguments arguments("tokenizer decode",
                      "Print the text of ids. Each line of the file is one document, as 'tokenizer "
                      "encode' prints them.",
                      "tessera tokenizer decode --tokenizer t.json ids.txt");
  arguments.option(tokenizer, "--tokenizer", "T", "a tokenizer.json or SentencePiece model", true);
  arguments.required(path, "FILE", "a file with ids");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  const auto loaded = data::load_tokenizer(tokenizer);
  std::ifstream file(path);
  if (!file) throw Error("{}: cannot be opened, expected a file with ids", path);
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    const std::string text = loaded->decode(ids_of_line(line, path, number));
    // With --json, each text is a string on its own line.
    const std::string out = json ? to_json(Tree(text)) : text;
    fmt::print("{}\n", out);
  }
  return 0;
}

}  // namespace tessera::cli
