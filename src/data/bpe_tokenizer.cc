// Byte-level BPE encoding, in the stages of Hugging Face's tokenizers: find added tokens in the raw
// text, normalize (NFC) what is between them, find added tokens that are matched after
// normalization, split into words, and merge the bytes of each word. The ids of words are cached,
// because text repeats its frequent words; most words cost one hash lookup.
#include "data/bpe_tokenizer.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Returns true if the token could match across a split before a single space, or take text from its
// other side: then a text must not be split there.
bool reaches_over(const AddedToken& token) {
  const std::string& s = token.content;
  bool over = token.rstrip || (token.single_word && s[0] == ' ');
  for (size_t i = 1; i < s.size(); ++i) over = over || (s[i] == ' ' && s[i - 1] != ' ');
  return over;
}

}  // namespace

BpeTokenizer::BpeTokenizer(const BpeDescription& bpe, uint64_t fingerprint,
                           const std::string& source)
    : pretokenizer_(unicode_, bpe.words),
      merges_(bpe.merges.size()),
      nfc_(bpe.nfc),
      add_prefix_space_(bpe.add_prefix_space),
      cuts_words_(bpe.words != WordSplit::kOff),
      ignore_merges_(bpe.ignore_merges),
      fingerprint_(fingerprint) {
  add_vocabulary(bpe);
  add_added_tokens(bpe);
  check_alphabet(source);
}

void BpeTokenizer::add_vocabulary(const BpeDescription& bpe) {
  int32_t last = -1;
  for (const auto& [text, id] : bpe.vocabulary) last = std::max(last, id);
  for (const AddedToken& token : bpe.added_tokens) last = std::max(last, token.id);
  tokens_.resize(static_cast<size_t>(last) + 1);
  byte_id_.fill(-1);
  for (const auto& [text, id] : bpe.vocabulary) {
    std::string& bytes = tokens_[id];
    bytes = characters_to_bytes(text);
    // A single byte's token counts only under its own character of the alphabet: an added token of
    // the same byte is not it.
    const Utf8 first = text.empty() ? Utf8{} : decode_utf8(text);
    if (bytes.size() != 1 || static_cast<size_t>(first.bytes) != text.size()) continue;
    const auto byte = static_cast<uint8_t>(bytes[0]);
    if (byte_to_character(byte) == first.code) byte_id_[byte] = id;
  }
  uint32_t rank = 0;
  for (const auto& [left, right, id] : bpe.merges) merges_.add(left, right, {rank++, id});
  if (!ignore_merges_) return;
  // With ignore_merges, a word that is in the vocabulary is one token, whatever its merges give
  // (Llama 3).
  for (const auto& [text, id] : bpe.vocabulary) {
    const std::string& bytes = tokens_[id];
    if (bytes_to_characters(bytes) == text) words_.emplace(bytes, id);
  }
}

void BpeTokenizer::add_added_tokens(const BpeDescription& bpe) {
  for (const AddedToken& token : bpe.added_tokens) {
    tokens_[token.id] = token.content;
    if (token.special) specials_.insert(token.id);
    if (token.content == bpe.around.begin) text_begin_ = token.id;
    if (token.content == bpe.around.end) source_end_ = token.id;
  }
  // Of tokens with the same content the first one added is found, and special tokens take
  // precedence.
  for (const bool special : {true, false}) {
    for (AddedToken token : bpe.added_tokens) {
      if (token.special != special) continue;
      if (token.normalized && nfc_) {
        // A token that is matched after normalization must be normalized itself.
        std::string content;
        append_nfc(token.content, unicode_, content);
        token.content = content;
      }
      (token.normalized ? normalized_tokens_ : raw_tokens_).add(token);
    }
  }
  cuts_at_spaces_ =
      cuts_words_ && std::none_of(bpe.added_tokens.begin(), bpe.added_tokens.end(), reaches_over);
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
    for (const AddedToken& token : bpe.added_tokens) {
      if (token.content == name && !end_of_text_) end_of_text_ = token.id;
    }
  }
}

// A byte without a token is replaced by U+FFFD, so the three bytes of that character must have
// tokens.
void BpeTokenizer::check_alphabet(const std::string& source) {
  for (const char c : kReplacement) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte_id_[byte] >= 0) continue;
    throw Error(
        "{}: model.vocab has no token for the byte 0x{:02x}, so there are texts that it cannot "
        "spell. Train it with the whole alphabet of 256 bytes ('tessera tokenizer train' does; in "
        "Hugging Face: initial_alphabet=ByteLevel.alphabet())",
        source, byte);
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
    throw Error("token id {} is beyond the vocabulary of {}", id, vocabulary_size());
  }
  return tokens_[id];
}

void BpeTokenizer::encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
                          EncodeReport* report) const {
  // Added tokens with normalized = false are found in the raw text first, as Hugging Face does;
  // what is between them is normalized and then searched for the others.
  EncodeReport ours = utf8_report(text);
  cache.begin(fingerprint_);
  Output out{ids, cache, ours};
  size_t from = 0;
  AddedTokenFinder::Search search;
  for (;;) {
    const AddedTokenFinder::Match match = raw_tokens_.next(text, from, search);
    if (match.id < 0) break;
    if (match.begin > from) encode_piece(text.substr(from, match.begin - from), out);
    ids.push_back(match.id);
    from = match.end;
  }
  if (from < text.size()) encode_piece(text.substr(from), out);
  if (report != nullptr) report->add(ours);
}

void BpeTokenizer::encode_piece(std::string_view text, Output& out) const {
  // Most text is unchanged by NFC, which a quick check of its characters finds without a copy.
  if (!nfc_ || !may_change_under_nfc(text, unicode_)) return encode_normalized(text, out);
  std::string composed;
  append_nfc(text, unicode_, composed);
  encode_normalized(composed, out);
}

void BpeTokenizer::encode_normalized(std::string_view text, Output& out) const {
  size_t from = 0;
  AddedTokenFinder::Search search;
  for (;;) {
    const AddedTokenFinder::Match match = normalized_tokens_.next(text, from, search);
    if (match.id < 0) break;
    if (match.begin > from) encode_words(text.substr(from, match.begin - from), out);
    out.ids.push_back(match.id);
    from = match.end;
  }
  if (from < text.size()) encode_words(text.substr(from), out);
}

void BpeTokenizer::encode_words(std::string_view text, Output& out) const {
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

void BpeTokenizer::encode_word(std::string_view word, Output& out) const {
  const uint64_t hash = hash_bytes(word);
  // Words repeat (Zipf's law), so most of them come from the cache and are never merged again.
  const std::span<const int32_t> known = out.cache.find(word, hash);
  if (known.empty()) return encode_new_word(word, hash, out);
  if (known.size() == 1) return out.ids.push_back(known[0]);
  out.ids.insert(out.ids.end(), known.begin(), known.end());
}

void BpeTokenizer::encode_new_word(std::string_view word, uint64_t hash, Output& out) const {
  if (ignore_merges_) {
    if (const auto found = words_.find(std::string(word)); found != words_.end()) {
      return out.ids.push_back(found->second);
    }
  }
  std::vector<int32_t>& ids = out.ids;
  const size_t first = ids.size();
  int64_t replaced = 0;
  for (const char c : word) {
    const int32_t id = byte_id_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      ids.push_back(id);
      continue;
    }
    ++replaced;
    for (const char r : kReplacement) ids.push_back(byte_id_[static_cast<uint8_t>(r)]);
  }
  const size_t left = merges_.apply(std::span(ids).subspan(first));
  ids.resize(first + left);
  out.report.replaced_bytes += replaced;
  // A word with replaced bytes is not cached, so that they are counted every time.
  if (replaced == 0) out.cache.insert(word, hash, std::span(ids).subspan(first));
}

}  // namespace tessera
