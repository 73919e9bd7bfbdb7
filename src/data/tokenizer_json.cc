// Reads and writes tokenizer.json of Hugging Face's `tokenizers`, for byte-level BPE. The format is
// defined by that library's code. Every component that changes ids is either reproduced exactly or
// rejected, because a tokenizer that is almost right produces plausible but wrong ids.
#include "data/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/tree.h"

namespace tessera::data {
namespace {

constexpr const char* kWayOut =
    "Only byte-level BPE (GPT-2, GPT-NeoX, Pythia, Qwen2, LLaMA 3, …) is supported. Train one with "
    "'tessera tokenizer train', or tokenize with Hugging Face and give the .bin/.idx to training.";

// The maximum number of unused ids. They cost memory here and a row of the embedding later, so
// damaged files with huge ids are rejected.
constexpr size_t kMostHoles = 65536;

// The expressions by which Qwen2 and LLaMA 3 split text into words, as in their published files.
// They are only compared as text and written: data/pretokenize.cc implements the splits.
constexpr std::pair<WordSplit, std::string_view> kExpressions[] = {
    {WordSplit::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordSplit::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
     R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// Maps a text of the vocabulary to its id.
using Ids = std::unordered_map<std::string_view, int32_t>;

class Reader {
 public:
  Reader(const Tree& root, std::string source) : root_(root), source_(std::move(source)) {}
  BpeDescription read();

 private:
  [[noreturn]] void fail(const Tree& at, const std::string& message) const {
    throw Error("{}:{}:{}: {}", source_, at.line, at.column, message);
  }
  const Tree& need(const Tree& parent, std::string_view name) const;
  std::string kind(const Tree& node, const char* what) const;
  bool flag(const Tree& parent, std::string_view name, bool otherwise) const;
  int32_t id(const Tree& node) const;
  void refuse_unless_empty(const Tree& model, std::string_view name) const;

  void read_normalizer(const Tree& node);
  void read_pre_tokenizer(const Tree& node);
  WordSplit words_of(const Tree& split) const;
  void read_model(const Tree& model);
  void read_vocabulary(const Tree& vocabulary);
  void read_merges(const Tree& merges);
  std::pair<std::string, std::string> merge_parts(const Tree& merge) const;
  void read_added_tokens(const Tree& list);

  const Tree& root_;
  std::string source_;
  BpeDescription out_;
  Ids ids_;
};

const Tree& Reader::need(const Tree& parent, std::string_view name) const {
  const Tree* found = parent.find(name);
  if (found == nullptr) fail(parent, fmt::format("'{}' is missing. {}", name, kWayOut));
  return *found;
}

std::string Reader::kind(const Tree& node, const char* what) const {
  const Tree* type = node.find("type");
  if (type == nullptr || type->as_string() == nullptr) {
    fail(node, fmt::format("the {} has no 'type'", what));
  }
  return *type->as_string();
}

bool Reader::flag(const Tree& parent, std::string_view name, bool otherwise) const {
  const Tree* found = parent.find(name);
  if (found == nullptr || found->is_null()) return otherwise;
  if (const bool* value = std::get_if<bool>(&found->value)) return *value;
  fail(*found, fmt::format("'{}' must be true or false", name));
}

int32_t Reader::id(const Tree& node) const {
  const int64_t* value = std::get_if<int64_t>(&node.value);
  if (value == nullptr || *value < 0 || *value > kLargestTokenId) {
    fail(node, fmt::format("a token id must be an integer from 0 to {}", kLargestTokenId));
  }
  return static_cast<int32_t>(*value);
}

void Reader::refuse_unless_empty(const Tree& model, std::string_view name) const {
  const Tree* found = model.find(name);
  if (found == nullptr || found->is_null()) return;
  const std::string* text = found->as_string();
  if (text == nullptr || !text->empty()) {
    fail(*found, fmt::format("model.{} is not supported. {}", name, kWayOut));
  }
}

void Reader::read_normalizer(const Tree& node) {
  if (node.is_null()) return;
  const std::string type = kind(node, "normalizer");
  if (type == "NFC") {
    out_.nfc = true;
  } else if (type == "Sequence") {
    const Tree& members = need(node, "normalizers");
    if (members.as_list() == nullptr) fail(members, "'normalizers' must be a list");
    // A Sequence of NFC steps is equivalent to one such step.
    for (const Tree& member : *members.as_list()) read_normalizer(member);
  } else {
    fail(node, fmt::format("normalizer '{}' is not supported, expected NFC. {}", type, kWayOut));
  }
}

// Accepts three forms: ByteLevel with GPT-2's expression, ByteLevel without an expression, and a
// Split with a known expression before such a ByteLevel.
void Reader::read_pre_tokenizer(const Tree& node) {
  const std::string type = node.is_null() ? "none" : kind(node, "pre_tokenizer");
  if (type == "Sequence") {
    const Tree& members = need(node, "pretokenizers");
    const Tree::List* list = members.as_list();
    if (list != nullptr && list->size() == 1) return read_pre_tokenizer(list->front());
    if (list != nullptr && list->size() == 2 && kind(list->front(), "pre_tokenizer") == "Split") {
      read_pre_tokenizer(list->back());
      const WordSplit words = words_of(list->front());
      if (out_.words != WordSplit::kOff || out_.add_prefix_space)
        fail(list->back(), "after a Split, use_regex and add_prefix_space must be false");
      out_.words = words;
      return;
    }
  }
  if (type != "ByteLevel") {
    fail(node, fmt::format("pre_tokenizer '{}' is not supported, expected ByteLevel alone or after "
                           "the Split of Qwen2 or LLaMA 3. {}",
                           type, kWayOut));
  }
  out_.add_prefix_space = flag(node, "add_prefix_space", true);
  out_.words = flag(node, "use_regex", true) ? WordSplit::kGpt2 : WordSplit::kOff;
}

// Recognizes a split by the text of its expression, exactly as the published files spell it.
// Regular expressions are not interpreted.
WordSplit Reader::words_of(const Tree& split) const {
  const Tree& pattern = need(split, "pattern");
  const Tree *regex = pattern.find("Regex"), *behavior = split.find("behavior");
  const bool isolated = behavior && behavior->as_string() && *behavior->as_string() == "Isolated";
  if (isolated && !flag(split, "invert", false) && regex && regex->as_string())
    for (const auto& [words, text] : kExpressions)
      if (*regex->as_string() == text) return words;
  fail(split, fmt::format("the Split's expression is not that of Qwen2 or LLaMA 3. {}", kWayOut));
}

// Reads the object of token: id. Some ids may be unused, as in some published files, but not many:
// ids index tables, and a damaged id must not make them huge.
void Reader::read_vocabulary(const Tree& vocabulary) {
  const Tree::Members* members = vocabulary.as_members();
  if (members == nullptr) fail(vocabulary, "model.vocab must be an object of token: id");
  out_.vocabulary.reserve(members->size());
  ids_.reserve(members->size());
  std::vector<bool> taken;
  for (const auto& [text, node] : *members) {
    const int32_t token = id(node);
    taken.resize(std::max<size_t>(taken.size(), token + 1));
    if (taken[token]) {
      fail(node, fmt::format("id {} of '{}' is also the id of another token", token, text));
    }
    taken[token] = true;
    if (!ids_.emplace(text, token).second) {
      fail(node, fmt::format("duplicate token '{}' in model.vocab", text));
    }
    out_.vocabulary.emplace_back(text, token);
  }
  if (out_.vocabulary.empty()) fail(vocabulary, "model.vocab is empty");
  if (taken.size() > out_.vocabulary.size() + kMostHoles) {
    fail(vocabulary,
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
  fail(merge, "a merge must be two tokens: \"a b\" or [\"a\", \"b\"]");
}

// The rank of a merge is its position in the list.
void Reader::read_merges(const Tree& merges) {
  if (merges.as_list() == nullptr) fail(merges, "model.merges must be a list");
  out_.merges.reserve(merges.as_list()->size());
  for (const Tree& merge : *merges.as_list()) {
    const std::pair<std::string, std::string> parts = merge_parts(merge);
    const std::string &left = parts.first, &right = parts.second;
    const auto lookup = [&](const std::string& text) {
      const auto found = ids_.find(text);
      if (found == ids_.end()) {
        fail(merge, fmt::format("merge {} of '{}' and '{}' needs the token '{}', which is not in "
                                "model.vocab; the file is damaged or was edited incorrectly",
                                out_.merges.size(), left, right, text));
      }
      return found->second;
    };
    out_.merges.push_back({lookup(left), lookup(right), lookup(left + right)});
  }
}

void Reader::read_model(const Tree& model) {
  // Files from before 2020 have no type; the presence of merges shows that it is BPE.
  const Tree* type = model.find("type");
  const std::string name = type == nullptr ? "BPE" : kind(model, "model");
  if (name != "BPE") fail(model, fmt::format("model '{}' is not supported. {}", name, kWayOut));
  // Each of these would change ids.
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    refuse_unless_empty(model, key);
  }
  if (flag(model, "byte_fallback", false)) {
    fail(model, fmt::format("model.byte_fallback is not supported. {}", kWayOut));
  }
  out_.ignore_merges = flag(model, "ignore_merges", false);
  read_vocabulary(need(model, "vocab"));
  read_merges(need(model, "merges"));
}

// Reads the added tokens. Hugging Face gives an added token the id that the vocabulary has for it,
// or the next one after all others, and ignores the id in the file. A file whose ids differ from
// that would be encoded differently there, so it is rejected.
void Reader::read_added_tokens(const Tree& list) {
  if (list.is_null()) return;
  if (list.as_list() == nullptr) fail(list, "'added_tokens' must be a list");
  std::unordered_set<std::string> seen;
  const auto size = static_cast<int32_t>(out_.vocabulary.size());
  int32_t last = -1;
  for (const Tree& node : *list.as_list()) {
    const Tree& content = need(node, "content");
    if (content.as_string() == nullptr) fail(content, "'content' must be a string");
    // Hugging Face ignores empty tokens and repetitions.
    if (content.as_string()->empty() || !seen.insert(*content.as_string()).second) continue;
    if (content.as_string()->size() > kLongestAddedToken)
      fail(content, fmt::format("an added token has {} bytes, expected at most {}. Remove it from "
                                "'added_tokens'",
                                content.as_string()->size(), kLongestAddedToken));
    AddedToken token;
    token.id = id(need(node, "id"));
    token.content = *content.as_string();
    const auto known = ids_.find(token.content);
    const int32_t wanted = known != ids_.end() ? known->second : std::max(last + 1, size);
    if (token.id != wanted) {
      fail(node,
           fmt::format("added token '{}' has id {}, but {} it is {}, which Hugging Face would use. "
                       "Correct the id",
                       token.content, token.id,
                       known != ids_.end() ? "in model.vocab" : "by its position in the list",
                       wanted));
    }
    last = std::max(last, token.id);
    token.single_word = flag(node, "single_word", false);
    token.lstrip = flag(node, "lstrip", false);
    token.rstrip = flag(node, "rstrip", false);
    token.normalized = flag(node, "normalized", true);
    token.special = flag(node, "special", false);
    out_.added_tokens.push_back(std::move(token));
  }
}

// The model is read first, since added tokens refer to its ids.
BpeDescription Reader::read() {
  if (root_.as_members() == nullptr)
    fail(root_, fmt::format("expected a JSON object. {}", kWayOut));
  read_model(need(root_, "model"));
  if (const Tree* node = root_.find("normalizer")) read_normalizer(*node);
  read_pre_tokenizer(need(root_, "pre_tokenizer"));
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
  return byte_level(bpe.add_prefix_space, bpe.words == WordSplit::kGpt2);
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
  const Tree normalizer = bpe.nfc ? object({{"type", Tree(std::string("NFC"))}}) : Tree();
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
