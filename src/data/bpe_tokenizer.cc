// BPE encoding, in the stages of Hugging Face's tokenizers: find added tokens in the raw text,
// normalize the text between them, find added tokens that are matched after normalization, split
// into words, and merge the bytes or characters of each word. The ids of words are cached,
// because text repeats its frequent words; most words cost one hash lookup.
#include "data/bpe_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "data/sentencepiece_model.h"

namespace tessera::data {
namespace {

// Returns true if the token could match across a split before a single space, or include text from
// its other side. A text must not be split there then.
bool reaches_over(const AddedToken& token) {
  const std::string& s = token.content;
  bool over = token.rstrip || (token.single_word && s[0] == ' ');
  for (size_t i = 1; i < s.size(); ++i) over = over || (s[i] == ' ' && s[i - 1] != ' ');
  return over;
}

// Returns true if no token extends from another character over a kSpaceCharacter, which has a token
// of its own. Then a text can be divided before each of them that follows another character.
bool begins_at_meta(const BpeDescription& bpe) {
  if (bpe.byte_level || bpe.ignore_merges || !bpe.inner_prefix.empty() || !bpe.end_suffix.empty())
    return false;
  bool known = false;
  for (const auto& [text, id] : bpe.vocabulary) {
    std::string_view rest = text;
    known = known || rest == kSpaceCharacter;
    while (rest.starts_with(kSpaceCharacter)) rest.remove_prefix(kSpaceCharacter.size());
    if (rest.find(kSpaceCharacter) != rest.npos) return false;
  }
  return known;
}

// Calls `make`, and adds the file and the component to its errors.
template <class F>
auto named(const std::string& source, const char* component, const F& make) {
  try {
    return make();
  } catch (const Error& e) {
    throw Error("{}: {}: {}", source, component, e.what());
  }
}

}  // namespace

BpeTokenizer::BpeTokenizer(const BpeDescription& bpe, uint64_t fingerprint,
                           const std::string& source)
    : normalizer_(named(source, "normalizer", [&] { return Normalizer(bpe.normalizer); })),
      splitter_(named(source, "pre_tokenizer", [&] { return Splitter(bpe.splits); })),
      decoder_(named(source, "decoder", [&] { return Decoder(bpe.decoder); })),
      pretokenizer_(unicode_, bpe.words),
      vocabulary_(bpe, decoder_, source),
      merges_(bpe.merges.size()),
      add_prefix_space_(bpe.add_prefix_space),
      cuts_at_spaces_(bpe.byte_level && splitter_.empty() && normalizer_.keeps_gaps() &&
                      bpe.words != PretokenizerKind::kOff &&
                      std::none_of(bpe.added_tokens.begin(), bpe.added_tokens.end(), reaches_over)),
      cuts_before_meta_(begins_at_meta(bpe)),
      fingerprint_(fingerprint) {
  if (!bpe.byte_level) characters_.emplace(bpe);
  uint32_t rank = 0;
  for (const auto& [left, right, id] : bpe.merges) merges_.add(left, right, {rank++, id});
  add_added_tokens(bpe);
}

void BpeTokenizer::add_added_tokens(const BpeDescription& bpe) {
  // Among tokens with the same content, special tokens have precedence, then the first one added.
  for (const bool special : {true, false}) {
    for (AddedToken token : bpe.added_tokens) {
      if (token.special != special) continue;
      if (token.normalized) {
        // A token that is matched after normalization must be normalized itself.
        std::string storage;
        token.content = std::string(normalizer_.apply(token.content, storage));
        if (token.content.empty() || token.content.size() > kLongestAddedToken)
          throw Error(
              "the added token {} has {} bytes after normalization, expected 1 to {}. Set "
              "its 'normalized' to false or remove it",
              token.id, token.content.size(), kLongestAddedToken);
      }
      (token.normalized ? normalized_tokens_ : raw_tokens_).add(token);
    }
  }
}

// Returns a position where the text can be split without changing its ids. No pretokenizer joins
// anything before the single space between two visible ASCII characters, and NFC composes nothing
// across it. Added tokens that could match across it disable splitting (cuts_at_spaces_).
size_t BpeTokenizer::last_cut(std::string_view text) const {
  if (!cuts_at_spaces_) return 0;
  const auto graphic = [](char c) { return c > ' ' && c <= '~'; };
  for (size_t i = text.size(); i > 2; --i) {
    const size_t p = i - 2;
    if (text[p] == ' ' && graphic(text[p - 1]) && graphic(text[p + 1])) return p;
  }
  return 0;
}

std::string_view BpeTokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) {
    throw Error("token id {} is outside the vocabulary of {}", id, vocabulary_size());
  }
  return vocabulary_.bytes(id);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  if (!characters_) return Tokenizer::decode(ids);
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    token_bytes(id);  // checks the id
    tokens.push_back(vocabulary_.text(id));
  }
  return decoder_.decode(std::move(tokens));
}

void BpeTokenizer::encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
                          EncodeReport* report) const {
  // Added tokens with normalized = false are matched in the raw text first, as in Hugging Face's
  // tokenizers. The text between them is normalized and then searched for the others.
  EncodeReport ours = utf8_report(text);
  cache.begin(fingerprint_);
  Output out{ids, cache, ours};
  size_t from = 0;
  AddedTokenFinder::Search search;
  for (;;) {
    const AddedTokenFinder::Match match = raw_tokens_.next(text, from, search);
    if (match.id < 0) break;
    if (match.begin > from) encode_piece(text.substr(from, match.begin - from), from == 0, out);
    ids.push_back(match.id);
    from = match.end;
  }
  if (from < text.size()) encode_piece(text.substr(from), from == 0, out);
  if (report != nullptr) report->add(ours);
}

void BpeTokenizer::encode_piece(std::string_view text, bool at_start, Output& out) const {
  std::string storage;
  encode_normalized(normalizer_.apply(text, storage), at_start, out);
}

void BpeTokenizer::encode_normalized(std::string_view text, bool at_start, Output& out) const {
  size_t from = 0;
  AddedTokenFinder::Search search;
  const auto words = [&](size_t end) {
    if (end > from) encode_words(text.substr(from, end - from), at_start && from == 0, out);
  };
  for (;;) {
    const AddedTokenFinder::Match match = normalized_tokens_.next(text, from, search);
    if (match.id < 0) break;
    words(match.begin);
    out.ids.push_back(match.id);
    from = match.end;
  }
  words(text.size());
}

// Encodes the text between all added tokens.
void BpeTokenizer::encode_words(std::string_view text, bool at_start, Output& out) const {
  const auto encode = [&](std::string_view piece) {
    if (characters_)
      encode_characters(piece, out);
    else
      encode_byte_words(piece, out);
  };
  if (splitter_.empty()) return encode(text);
  splitter_.each_piece(text, at_start, encode);
}

void BpeTokenizer::encode_byte_words(std::string_view text, Output& out) const {
  std::string prefixed;
  if (add_prefix_space_ && text[0] != ' ') {
    prefixed.reserve(text.size() + 1);
    prefixed += ' ';
    prefixed += text;
    text = prefixed;
  }
  for (size_t from = 0; from < text.size();) {
    const size_t end = pretokenizer_.word_end(text, from);
    encode_word(text.substr(from, end - from), out);
    from = end;
  }
}

void BpeTokenizer::encode_characters(std::string_view text, Output& out) const {
  size_t from = 0;
  const auto before = [&](size_t at) { return text.substr(0, at).ends_with(kSpaceCharacter); };
  for (size_t at = cuts_before_meta_ ? text.find(kSpaceCharacter) : text.npos; at != text.npos;
       at = text.find(kSpaceCharacter, at + 1)) {
    if (at == from || before(at)) continue;
    encode_word(text.substr(from, at - from), out);
    from = at;
  }
  encode_word(text.substr(from), out);
}

void BpeTokenizer::encode_word(std::string_view word, Output& out) const {
  const uint64_t hash = hash_bytes(word);
  // Words repeat (Zipf's law), so most of them come from the cache and are never merged again.
  const std::span<const int32_t> known = out.cache.find(word, hash);
  if (known.empty()) return encode_new_word(word, hash, out);
  if (known.size() == 1) return out.ids.push_back(known[0]);
  out.ids.insert(out.ids.end(), known.begin(), known.end());
}

// Appends the symbols of a word before any merge. Returns the number of replaced bytes.
int64_t BpeTokenizer::append_symbols(std::string_view word, std::vector<int32_t>& ids) const {
  if (characters_) return characters_->append(word, ids);
  int64_t replaced = 0;
  for (const uint8_t byte : word) {
    const int32_t id = vocabulary_.id_of_byte(byte);
    if (id >= 0) {
      ids.push_back(id);
      continue;
    }
    ++replaced;
    for (const uint8_t r : BpeVocabulary::kReplacement) ids.push_back(vocabulary_.id_of_byte(r));
  }
  return replaced;
}

void BpeTokenizer::encode_new_word(std::string_view word, uint64_t hash, Output& out) const {
  if (const int32_t id = vocabulary_.id_of_word(word); id >= 0) return out.ids.push_back(id);
  std::vector<int32_t>& ids = out.ids;
  const size_t first = ids.size();
  const int64_t replaced = append_symbols(word, ids);
  const size_t left = merges_.apply(std::span(ids).subspan(first));
  ids.resize(first + left);
  out.report.replaced_bytes += replaced;
  // A word with replaced bytes is not cached, so that they are counted every time.
  const bool empty = ids.size() == first;
  if (replaced == 0 && !empty) out.cache.insert(word, hash, std::span(ids).subspan(first));
}

}  // namespace tessera::data
