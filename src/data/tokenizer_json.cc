// Reads and writes tokenizer.json of Hugging Face's `tokenizers`, for BPE. The format is
// defined by that library's code. Every component that changes ids is either reproduced exactly or
// rejected, because a tokenizer that is almost right produces plausible but wrong ids.
#include "data/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/tree.h"
#include "data/tokenizer_json_steps.h"

namespace tessera::data {
namespace {

constexpr const char* kWayOut =
    "Only BPE is supported (GPT-2, Qwen, LLaMA, Mistral, Gemma, …), and SentencePiece models as "
    "their own files. Train a tokenizer with 'tessera tokenizer train', or tokenize with Hugging "
    "Face and give the .bin/.idx to training.";

// The maximum number of unused ids. They cost memory here and a row of the embedding later, so
// damaged files with huge ids are rejected.
constexpr size_t kMostHoles = 65536;

// The expressions by which Qwen2 and LLaMA 3 split text into words, as in their published files.
// data/pretokenize.cc implements them by hand; all other expressions are matched by Expression.
constexpr std::pair<PretokenizerKind, std::string_view> kExpressions[] = {
    {PretokenizerKind::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PretokenizerKind::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
     R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// Maps a text of the vocabulary to its id.
using Ids = std::unordered_map<std::string_view, int32_t>;

class Reader {
 public:
  Reader(const Tree& root, std::string source) : root_(root), json_(std::move(source)) {}
  BpeDescription read();

 private:
  int32_t id(const Tree& node) const;
  std::string affix(const Tree& model, std::string_view name) const;
  void read_pre_tokenizer(const Tree& node);
  void read_byte_level(const Tree& node);
  void read_vocabulary(const Tree& vocabulary);
  void read_merges(const Tree& merges);
  std::pair<std::string, std::string> merge_parts(const Tree& merge) const;
  void read_model(const Tree& model);
  void read_decoder_of(const Tree& node);
  void read_added_tokens(const Tree& list);

  const Tree& root_;
  TokenizerJson json_;
  BpeDescription out_;
  Ids ids_;
};

int32_t Reader::id(const Tree& node) const {
  const int64_t* value = std::get_if<int64_t>(&node.value);
  if (value == nullptr || *value < 0 || *value > kLargestTokenId) {
    json_.fail(node, fmt::format("a token id must be an integer from 0 to {}", kLargestTokenId));
  }
  return static_cast<int32_t>(*value);
}

// Returns a text of the model that may be null or missing.
std::string Reader::affix(const Tree& model, std::string_view name) const {
  const Tree* found = model.find(name);
  return found == nullptr || found->is_null() ? "" : json_.text(model, name);
}

// Appends the steps to out_.splits. ByteLevel must be the last one, since the others see characters
// and not bytes.
void Reader::read_pre_tokenizer(const Tree& node) {
  if (node.is_null()) return;
  if (out_.byte_level) json_.fail(node, "a pre_tokenizer after ByteLevel is not supported");
  const std::string& type = json_.kind(node, "pre_tokenizer");
  if (type == "Sequence") {
    for (const Tree& member : json_.list(node, "pretokenizers")) read_pre_tokenizer(member);
  } else if (type == "ByteLevel") {
    read_byte_level(node);
  } else {
    read_split(json_, node, out_.splits);
  }
}

// A Split with a known expression before a ByteLevel that only maps bytes to characters becomes a
// PretokenizerKind, which is faster.
void Reader::read_byte_level(const Tree& node) {
  out_.byte_level = true;
  out_.add_prefix_space = json_.flag(node, "add_prefix_space", true);
  out_.words =
      json_.flag(node, "use_regex", true) ? PretokenizerKind::kGpt2 : PretokenizerKind::kOff;
  if (out_.words != PretokenizerKind::kOff || out_.add_prefix_space || out_.splits.empty()) return;
  for (const auto& [words, text] : kExpressions) {
    if (!(out_.splits.back() == SplitStep{.pattern = {std::string(text), true}})) continue;
    out_.words = words;
    out_.splits.pop_back();
    return;
  }
}

// Reads the object of token: id. Some ids may be unused, as in some published files, but not many:
// ids index tables, and a damaged id must not make them huge.
void Reader::read_vocabulary(const Tree& vocabulary) {
  const Tree::Members* members = vocabulary.as_members();
  if (members == nullptr) json_.fail(vocabulary, "model.vocab must be an object of token: id");
  out_.vocabulary.reserve(members->size());
  ids_.reserve(members->size());
  std::vector<bool> taken;
  for (const auto& [text, node] : *members) {
    const int32_t token = id(node);
    taken.resize(std::max<size_t>(taken.size(), token + 1));
    if (taken[token]) {
      json_.fail(node, fmt::format("id {} of '{}' is also the id of another token", token, text));
    }
    taken[token] = true;
    if (!ids_.emplace(text, token).second) {
      json_.fail(node, fmt::format("duplicate token '{}' in model.vocab", text));
    }
    out_.vocabulary.emplace_back(text, token);
  }
  if (out_.vocabulary.empty()) json_.fail(vocabulary, "model.vocab is empty");
  if (taken.size() > out_.vocabulary.size() + kMostHoles) {
    json_.fail(vocabulary,
               fmt::format("model.vocab has {} tokens, but ids up to {}; at most {} ids may be "
                           "unused",
                           out_.vocabulary.size(), taken.size() - 1, kMostHoles));
  }
}

// Reads a merge: "a b" in older files, ["a", "b"] since tokens may contain spaces.
std::pair<std::string, std::string> Reader::merge_parts(const Tree& merge) const {
  if (const std::string* text = merge.as_string()) {
    const size_t space = text->find(' ');
    if (space != std::string::npos && text->find(' ', space + 1) == std::string::npos) {
      return {text->substr(0, space), text->substr(space + 1)};
    }
  }
  if (const Tree::List* pair = merge.as_list(); pair != nullptr && pair->size() == 2) {
    const std::string *left = (*pair)[0].as_string(), *right = (*pair)[1].as_string();
    if (left != nullptr && right != nullptr) return {*left, *right};
  }
  json_.fail(merge, "a merge must be two tokens: \"a b\" or [\"a\", \"b\"]");
}

// The rank of a merge is its position in the list.
void Reader::read_merges(const Tree& merges) {
  if (merges.as_list() == nullptr) json_.fail(merges, "model.merges must be a list");
  out_.merges.reserve(merges.as_list()->size());
  for (const Tree& merge : *merges.as_list()) {
    const std::pair<std::string, std::string> parts = merge_parts(merge);
    const std::string &left = parts.first, &right = parts.second;
    // The right token has the prefix, the merged one does not have it inside.
    const size_t prefix = std::min(out_.inner_prefix.size(), right.size());
    const auto lookup = [&](const std::string& text) {
      const auto found = ids_.find(text);
      if (found == ids_.end()) {
        json_.fail(merge,
                   fmt::format("merge {} of '{}' and '{}' needs the token '{}', which is not in "
                               "model.vocab; the file is damaged or was edited incorrectly",
                               out_.merges.size(), left, right, text));
      }
      return found->second;
    };
    out_.merges.push_back({lookup(left), lookup(right), lookup(left + right.substr(prefix))});
  }
}

void Reader::read_model(const Tree& model) {
  // Files from before 2020 have no type; the presence of merges shows that it is BPE.
  const Tree* type = model.find("type");
  const std::string name = type == nullptr ? "BPE" : json_.kind(model, "model");
  if (name != "BPE")
    json_.fail(model, fmt::format("model '{}' is not supported. {}", name, kWayOut));
  const Tree* dropout = model.find("dropout");
  if (dropout != nullptr && !dropout->is_null() && number_in(*dropout) != 0.0)
    json_.fail(*dropout, "model.dropout is not supported, expected null");
  out_.inner_prefix = affix(model, "continuing_subword_prefix");
  out_.end_suffix = affix(model, "end_of_word_suffix");
  out_.unknown = affix(model, "unk_token");
  out_.fuse_unknown = json_.flag(model, "fuse_unk", false);
  out_.byte_fallback = json_.flag(model, "byte_fallback", false);
  out_.ignore_merges = json_.flag(model, "ignore_merges", false);
  read_vocabulary(json_.need(model, "vocab"));
  if (!out_.unknown.empty() && !ids_.contains(out_.unknown))
    json_.fail(model, fmt::format("unk_token '{}' is not in model.vocab", out_.unknown));
  read_merges(json_.need(model, "merges"));
}

// Bytes are decoded as ByteLevel does, so no other decoder can follow such a pre-tokenizer.
void Reader::read_decoder_of(const Tree& node) {
  if (!out_.byte_level) return read_decoder(json_, node, out_.decoder);
  if (node.is_null()) return;
  const std::string& type = json_.kind(node, "decoder");
  if (type == "Sequence") {
    for (const Tree& member : json_.list(node, "decoders")) read_decoder_of(member);
  } else if (type != "ByteLevel") {
    json_.fail(node, fmt::format("decoder '{}' after the pre_tokenizer ByteLevel is not supported, "
                                 "expected ByteLevel",
                                 type));
  }
}

// Reads the added tokens. Hugging Face gives an added token the id that the vocabulary has for it,
// or the next one after all others, and ignores the id in the file. A file whose ids differ from
// that would be encoded differently there, so it is rejected.
void Reader::read_added_tokens(const Tree& list) {
  if (list.is_null()) return;
  if (list.as_list() == nullptr) json_.fail(list, "'added_tokens' must be a list");
  std::unordered_set<std::string> seen;
  const auto size = static_cast<int32_t>(out_.vocabulary.size());
  int32_t last = -1;
  for (const Tree& node : *list.as_list()) {
    const Tree& content = json_.need(node, "content");
    if (content.as_string() == nullptr) json_.fail(content, "'content' must be a string");
    // Hugging Face ignores empty tokens and repetitions.
    if (content.as_string()->empty() || !seen.insert(*content.as_string()).second) continue;
    if (content.as_string()->size() > kLongestAddedToken)
      json_.fail(content,
                 fmt::format("an added token has {} bytes, expected at most {}. Remove it from "
                             "'added_tokens'",
                             content.as_string()->size(), kLongestAddedToken));
    AddedToken token;
    token.id = id(json_.need(node, "id"));
    token.content = *content.as_string();
    const auto known = ids_.find(token.content);
    const int32_t expected = known != ids_.end() ? known->second : std::max(last + 1, size);
    if (token.id != expected) {
      json_.fail(
          node,
          fmt::format("added token '{}' has id {}, but {} it is {}, which Hugging Face would use. "
                      "Correct the id",
                      token.content, token.id,
                      known != ids_.end() ? "in model.vocab" : "by its position in the list",
                      expected));
    }
    last = std::max(last, token.id);
    token.single_word = json_.flag(node, "single_word", false);
    token.lstrip = json_.flag(node, "lstrip", false);
    token.rstrip = json_.flag(node, "rstrip", false);
    token.normalized = json_.flag(node, "normalized", true);
    token.special = json_.flag(node, "special", false);
    out_.added_tokens.push_back(std::move(token));
  }
}

// The model is read first, since added tokens refer to its ids.
BpeDescription Reader::read() {
  if (root_.as_members() == nullptr)
    json_.fail(root_, fmt::format("expected a JSON object. {}", kWayOut));
  read_model(json_.need(root_, "model"));
  if (const Tree* node = root_.find("normalizer")) read_normalizer(json_, *node, out_.normalizer);
  out_.byte_level = false;
  out_.words = PretokenizerKind::kOff;
  if (const Tree* node = root_.find("pre_tokenizer")) read_pre_tokenizer(*node);
  const bool affixes = !out_.inner_prefix.empty() || !out_.end_suffix.empty();
  if (out_.byte_level && affixes)
    json_.fail(root_,
               "continuing_subword_prefix and end_of_word_suffix with the pre_tokenizer "
               "ByteLevel are not supported");
  if (const Tree* node = root_.find("decoder")) read_decoder_of(*node);
  if (const Tree* node = root_.find("added_tokens")) read_added_tokens(*node);
  out_.around = read_text_template(root_);
  return std::move(out_);
}

Tree object(Tree::Members members) { return Tree(std::move(members)); }

// Returns the step that maps bytes to the characters of GPT-2's alphabet.
Tree byte_level(bool add_prefix_space, bool use_regex) {
  return object({{"type", Tree(std::string("ByteLevel"))},
                 {"add_prefix_space", Tree(add_prefix_space)},
                 {"trim_offsets", Tree(true)},
                 {"use_regex", Tree(use_regex)}});
}

// GPT-2's split is built into ByteLevel (use_regex). The others are a Split step before a ByteLevel
// that only maps bytes to characters.
Tree pre_tokenizer(const BpeDescription& bpe) {
  for (const auto& [words, text] : kExpressions) {
    if (words != bpe.words) continue;
    const Tree split = object({{"type", Tree(std::string("Split"))},
                               {"pattern", object({{"Regex", Tree(std::string(text))}})},
                               {"behavior", Tree(std::string("Isolated"))},
                               {"invert", Tree(false)}});
    return object({{"type", Tree(std::string("Sequence"))},
                   {"pretokenizers", Tree(Tree::List{split, byte_level(false, false)})}});
  }
  return byte_level(bpe.add_prefix_space, bpe.words == PretokenizerKind::kGpt2);
}

Tree added_token(const AddedToken& t) {
  return object({{"id", Tree(int64_t{t.id})},
                 {"content", Tree(t.content)},
                 {"single_word", Tree(t.single_word)},
                 {"lstrip", Tree(t.lstrip)},
                 {"rstrip", Tree(t.rstrip)},
                 {"normalized", Tree(t.normalized)},
                 {"special", Tree(t.special)}});
}

// Returns the model as Hugging Face's trainer writes it, including keys whose value is null, which
// its readers require.
Tree model_tree(const BpeDescription& bpe) {
  Tree::Members vocabulary;
  std::unordered_map<int32_t, const std::string*> text;
  for (const auto& [token, id] : bpe.vocabulary) {
    vocabulary.emplace_back(token, Tree(int64_t{id}));
    // Merges are stored as ids here, but as texts in the file.
    text[id] = &token;
  }
  Tree::List merges;
  for (const auto& [left, right, result] : bpe.merges) {
    merges.push_back(Tree(Tree::List{Tree(*text.at(left)), Tree(*text.at(right))}));
  }
  return object({{"type", Tree(std::string("BPE"))},
                 {"dropout", Tree()},
                 {"unk_token", Tree()},
                 {"continuing_subword_prefix", Tree()},
                 {"end_of_word_suffix", Tree()},
                 {"fuse_unk", Tree(false)},
                 {"byte_fallback", Tree(false)},
                 {"ignore_merges", Tree(bpe.ignore_merges)},
                 {"vocab", Tree(std::move(vocabulary))},
                 {"merges", Tree(std::move(merges))}});
}

}  // namespace

BpeDescription read_tokenizer_json(std::string_view text, const std::string& source) {
  const Tree root = parse_json(text, source);
  return Reader(root, source).read();
}

std::string write_tokenizer_json(const BpeDescription& bpe) {
  Tree::List added;
  for (const AddedToken& token : bpe.added_tokens) added.push_back(added_token(token));
  const bool nfc = bpe.normalizer == std::vector<NormalizerStep>{{}};
  CHECK(bpe.byte_level && bpe.splits.empty() && (nfc || bpe.normalizer.empty()),
        "a tokenizer that `tokenizer train` does not make");
  const Tree normalizer = nfc ? object({{"type", Tree(std::string("NFC"))}}) : Tree();
  const Tree root = object({{"version", Tree(std::string("1.0"))},
                            {"truncation", Tree()},
                            {"padding", Tree()},
                            {"added_tokens", Tree(std::move(added))},
                            {"normalizer", normalizer},
                            {"pre_tokenizer", pre_tokenizer(bpe)},
                            {"post_processor", byte_level(false, true)},
                            {"decoder", byte_level(true, true)},
                            {"model", model_tree(bpe)}});
  return to_json(root, 2) + "\n";
}

}  // namespace tessera::data
