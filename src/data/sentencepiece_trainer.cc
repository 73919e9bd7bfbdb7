// Trains a SentencePiece model with the library, with settings that make the result reproducible,
// and appends the sentinels of T5 afterwards.
#include "data/sentencepiece_trainer.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <exception>
#include <unordered_map>

#include "base/error.h"

namespace tessera::data {
namespace {

constexpr size_t kLongestLine = 4192;  // bytes; the library ignores longer lines
constexpr int32_t kMostPieces = 1 << 22;

// Provides the lines to the library. An exception of `next` is stored and rethrown after the
// library has returned, because its code is not exception safe.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const NextLine& next) : next_(next) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    while (rest_.empty()) {
      if (!read()) return;
    }
    size_t size = std::min(rest_.size(), kLongestLine);
    // Splits at a space if there is one, and never inside a character.
    if (size < rest_.size()) {
      const size_t space = rest_.rfind(' ', size - 1);
      if (space != rest_.npos && space > 0) size = space;
    }
    while (size < rest_.size() && size > 1 && (rest_[size] & 0xC0) == 0x80) --size;
    value_ = rest_.substr(0, size);
    rest_.erase(0, size);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  bool read() {
    try {
      done_ = !next_(rest_);
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
    if (done_) return false;
    std::replace(rest_.begin(), rest_.end(), '\t', ' ');
    while (rest_.ends_with('\n') || rest_.ends_with('\r')) rest_.pop_back();
    return true;
  }

  const NextLine& next_;
  std::string rest_, value_;
  std::exception_ptr error_;
  bool done_ = false;
};

// Appends an entry to a comma-separated list (CSV): quotes inside it are doubled.
void append_quoted(std::string& list, const std::string& token) {
  if (!list.empty()) list += ',';
  list += '"';
  for (const char c : token) list.append(c == '"' ? 2 : 1, c);
  list += '"';
}

using Settings = std::unordered_map<std::string, std::string>;

Settings settings_of(const SentencePieceTraining& t) {
  const bool bpe = t.kind == SentencePieceKind::kBpe;
  Settings s = {
      {"model_type", bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(t.vocabulary - t.sentinels)},
      {"character_coverage", fmt::format("{}", t.coverage)},
      {"byte_fallback", t.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", !t.normalizer.empty() ? t.normalizer
                                  : bpe                 ? "identity"
                                                        : "nmt_nfkc"},
      // The number of threads affects the result, since sums of floats are divided among them. It
      // is fixed, so that every machine learns the same model.
      {"num_threads", "16"},
      {"max_sentence_length", std::to_string(kLongestLine)},
      {"minloglevel", "3"},
  };
  if (bpe) {
    // The ids of LLaMA's model. The other branch has those of T5's.
    s.insert({{"unk_id", "0"}, {"bos_id", "1"}, {"eos_id", "2"}, {"pad_id", "-1"}});
    s.insert({{"split_digits", "true"},
              {"remove_extra_whitespaces", "false"},
              {"allow_whitespace_only_pieces", "true"}});
  } else {
    s.insert({{"pad_id", "0"}, {"eos_id", "1"}, {"unk_id", "2"}, {"bos_id", "-1"}});
  }
  std::string tokens;
  for (const std::string& token : t.user_tokens) append_quoted(tokens, token);
  if (!tokens.empty()) s["user_defined_symbols"] = tokens;
  return s;
}

}  // namespace

void check_training(const SentencePieceTraining& t) {
  if (t.sentinels < 0 || t.sentinels > kMostPieces) {
    throw Error("the number of sentinels is {}, expected 0 to 4,194,304; T5 has 100", t.sentinels);
  }
  const int64_t taken = std::ssize(t.user_tokens) + t.sentinels + 3 + (t.byte_fallback ? 256 : 0);
  if (t.vocabulary <= taken || t.vocabulary > kMostPieces) {
    throw Error(
        "the vocabulary has {} entries, expected {} to {}: special tokens, sentinels{} need {}",
        t.vocabulary, taken + 1, kMostPieces, t.byte_fallback ? " and bytes" : "", taken);
  }
  if (!(t.coverage >= 0.9 && t.coverage <= 1)) {
    throw Error("the character coverage is {}, expected 0.9 to 1", t.coverage);
  }
  constexpr std::array kNormalizers = {"",         "identity", "nfkc",
                                       "nmt_nfkc", "nfkc_cf",  "nmt_nfkc_cf"};
  if (std::find(kNormalizers.begin(), kNormalizers.end(), t.normalizer) == kNormalizers.end()) {
    throw Error(
        "unknown normalizer '{}', expected identity, nfkc, nmt_nfkc, nfkc_cf or nmt_nfkc_cf",
        t.normalizer);
  }
  for (const std::string& token : t.user_tokens) {
    if (token.empty() || token.find('\0') != token.npos)
      throw Error("a user-defined token is empty or contains a zero byte. Remove it.");
  }
}

std::string train_sentencepiece(const NextLine& next, const SentencePieceTraining& training) {
  check_training(training);
  Lines lines(next);
  lines.rethrow();
  if (lines.done()) throw Error("there is no text to learn pieces from. Give files with text.");
  std::string bytes;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(settings_of(training), &lines, &bytes);
  lines.rethrow();
  if (!status.ok()) {
    throw Error("SentencePiece could not learn {} pieces from this text: {}",
                training.vocabulary - training.sentinels, status.error_message());
  }
  return with_sentinels(bytes, training.sentinels);
}

}  // namespace tessera::data
