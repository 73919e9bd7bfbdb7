// Reads and writes PREFIX.json, the description of a dataset, and decides whether a tokenizer
// decodes its ids to the original texts. Fingerprints are hexadecimal text, because JSON readers
// may round integers above 2^53.
#include "data/dataset_about.h"

#include <charconv>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/tree.h"
#include "data/tokenizer_json.h"
#include "data/vocabulary.h"

namespace tessera::data {
namespace {

constexpr const char* kFormat = "tessera dataset 1";

// Reads the members of one JSON object. Throws Error that names a member which is missing or has
// another type.
class Members {
 public:
  Members(const Tree& object, std::string source) : object_(object), source_(std::move(source)) {}

  template <class T>
  T get(const char* key, const char* wanted) const {
    const Tree* member = object_.find(key);
    const T* value = member != nullptr ? std::get_if<T>(&member->value) : nullptr;
    if (value == nullptr) {
      const Tree& at = member != nullptr ? *member : object_;
      throw Error("{}:{}:{}: expected '{}' with {}. Build the dataset again, or remove this file",
                  source_, at.line, at.column, key, wanted);
    }
    return *value;
  }
  int64_t integer(const char* key, int64_t most = std::numeric_limits<int64_t>::max()) const {
    const auto n = get<int64_t>(key, "an integer");
    if (n < 0 || n > most) throw Error("{}: '{}' is {}, expected 0 to {}", source_, key, n, most);
    return n;
  }
  std::string text(const char* key) const { return get<std::string>(key, "a text"); }
  uint64_t hexadecimal(const char* key) const {
    const std::string digits = text(key);
    uint64_t n = 0;
    const char* end = digits.data() + digits.size();
    const auto [rest, status] = std::from_chars(digits.data(), end, n, 16);
    if (status != std::errc() || rest != end)
      throw Error("{}: '{}' is '{}', expected a hexadecimal number", source_, key, digits);
    return n;
  }
  const Tree* find(const char* key) const { return object_.find(key); }

 private:
  const Tree& object_;
  std::string source_;
};

}  // namespace

std::string to_json(const DatasetInfo& about) {
  Tree sources = Tree::list();
  for (const SourceInfo& s : about.sources) {
    Tree one;
    one.set("name", Tree(s.name));
    one.set("documents", Tree(s.documents));
    one.set("tokens", Tree(s.tokens));
    one.set("text_bytes", Tree(s.text_bytes));
    sources.push(std::move(one));
  }
  Tree t;
  t.set("format", Tree(std::string(kFormat)));
  t.set("tokenizer", Tree(about.tokenizer));
  t.set("tokenizer_fingerprint", Tree(fmt::format("{:016x}", about.tokenizer_fingerprint)));
  t.set("vocabulary", Tree(about.vocabulary));
  if (about.token_texts) t.set("token_texts", Tree(fmt::format("{:016x}", *about.token_texts)));
  t.set("end_of_text", about.end_of_text ? Tree(int64_t{*about.end_of_text}) : Tree());
  t.set("documents", Tree(about.documents));
  t.set("tokens", Tree(about.tokens));
  t.set("text_bytes", Tree(about.text_bytes));
  t.set("invalid_bytes", Tree(about.invalid_bytes));
  t.set("first_invalid", Tree(about.first_invalid));
  t.set("split", Tree(about.split));
  t.set("format_of_files", Tree(about.format));
  t.set("key", Tree(about.key));
  t.set("sources", std::move(sources));
  return tessera::to_json(t, 2) + "\n";
}

std::optional<DatasetInfo> read_about(const IndexedDataset& data) {
  Path path = data.prefix();
  path += ".json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const std::string name = path.string();
  const Tree tree = parse_json(read_file(path), name);
  const Members m(tree, name);
  if (const std::string format = m.text("format"); format != kFormat) {
    throw Error("{}: 'format' is '{}', expected '{}'", name, format, kFormat);
  }
  DatasetInfo about;
  about.tokenizer = m.text("tokenizer");
  about.tokenizer_fingerprint = m.hexadecimal("tokenizer_fingerprint");
  about.vocabulary = m.integer("vocabulary", kLargestTokenId + int64_t{1});
  if (m.find("token_texts") != nullptr) about.token_texts = m.hexadecimal("token_texts");
  if (const Tree* end = m.find("end_of_text"); end != nullptr && !end->is_null()) {
    about.end_of_text = static_cast<int32_t>(m.integer("end_of_text", kLargestTokenId));
  }
  about.documents = m.integer("documents");
  about.tokens = m.integer("tokens");
  about.text_bytes = m.integer("text_bytes");
  about.invalid_bytes = m.integer("invalid_bytes");
  about.first_invalid = m.text("first_invalid");
  about.split = m.text("split");
  about.format = m.text("format_of_files");
  about.key = m.text("key");
  for (const Tree& one : m.get<Tree::List>("sources", "a list")) {
    const Members s(one, name);
    about.sources.push_back(
        {s.text("name"), s.integer("documents"), s.integer("tokens"), s.integer("text_bytes")});
  }
  // A crash or a copy may leave the description of another build next to the data.
  if (about.documents != data.documents() || about.tokens != data.tokens()) {
    throw Error(
        "{}: describes {} documents and {} tokens, but {} has {} and {}. They do not belong "
        "together: build the dataset again, or remove this file",
        name, about.documents, about.tokens, data.index_name(), data.documents(), data.tokens());
  }
  return about;
}

namespace {

// Returns true if the ids of the dataset represent the same texts in `tokenizer`: if it is the same
// tokenizer, or one with the same texts for all ids of the dataset (and possibly further ids).
bool reads_rightly(const DatasetInfo& about, const Tokenizer& tokenizer) {
  if (about.tokenizer_fingerprint == tokenizer.fingerprint()) return true;
  // Texts of ids are compared by their hash, since the old tokenizer may no longer exist.
  if (about.token_texts)
    return tokenizer.vocabulary_size() >= about.vocabulary &&
           hash_token_texts(tokenizer, about.vocabulary) == *about.token_texts;
  try {  // built by an older version: its tokenizer may still exist
    const auto builder = load_tokenizer(about.tokenizer);
    return builder->fingerprint() == about.tokenizer_fingerprint &&
           means_the_same(*builder, tokenizer);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string foreign_tokenizer(const IndexedDataset& data, const Tokenizer& tokenizer,
                              const std::string& name) {
  const auto about = read_about(data);
  if (!about || reads_rightly(*about, tokenizer)) return "";
  return fmt::format(
      "{} was built with {} ({:016x}, {} tokens), but is read with {} ({:016x}, {} tokens), whose "
      "ids represent different texts",
      data.prefix().string(), about->tokenizer, about->tokenizer_fingerprint, about->vocabulary,
      name, tokenizer.fingerprint(), tokenizer.vocabulary_size());
}

}  // namespace tessera::data
