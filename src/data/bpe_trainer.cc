// Learns BPE merges (Sennrich et al. 2016) over counted words.
//
// For each pair of neighboring symbols, its count over all words and the words that contain it are
// stored. A merge then visits only the words of its pair and updates the counts of the changed
// neighbors, instead of counting the corpus again. The most frequent pair comes from a priority
// queue with lazy updates: a popped entry whose count is out of date is pushed again with the
// current one. Ties are broken by the lower ids, so the result does not depend on the order of the
// words.
#include "data/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <queue>
#include <set>
#include <unordered_map>

#include "base/error.h"

namespace tessera::data {
namespace {

// Returns 0, 1, …, 255.
constexpr std::array<uint8_t, 256> all_bytes() {
  std::array<uint8_t, 256> all{};
  std::iota(all.begin(), all.end(), uint8_t{0});
  return all;
}

struct Pair {
  int32_t left, right;
  bool operator==(const Pair&) const = default;
  auto operator<=>(const Pair&) const = default;
};

// The count of each pair over all words, and the words in which it appeared during this merge. A
// hash table with open addressing, at most half full.
class PairCounts {
 public:
  struct Slot {
    Pair pair{-1, -1};
    int64_t count = 0;
    std::vector<uint32_t> new_words;
  };
  Slot& at(Pair pair) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[place(pair)];
    if (slot.pair.left < 0) {
      slot.pair = pair;
      ++used_;
    }
    return slot;
  }
  const std::vector<Slot>& slots() const { return slots_; }
  std::vector<Slot>& slots() { return slots_; }

 private:
  size_t place(Pair pair) const {
    const uint64_t key =
        uint64_t{static_cast<uint32_t>(pair.left)} << 32 | static_cast<uint32_t>(pair.right);
    const size_t mask = slots_.size() - 1;
    // Fibonacci hashing (Knuth, TAOCP 3, section 6.4): the upper bits of the key times 2^64 / phi
    // select the slot.
    size_t i = (key * 0x9E3779B97F4A7C15u) >> (64 - std::countr_zero(slots_.size()));
    while (slots_[i].pair.left >= 0 && slots_[i].pair != pair) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.pair.left >= 0) slots_[place(slot.pair)] = std::move(slot);
    }
  }
  std::vector<Slot> slots_ = std::vector<Slot>(1 << 16);
  size_t used_ = 0;
};

// A pair in the queue, with the words in which to merge it. A pair can be queued twice: if two
// different merges produce the same token, the second one adds words that the first entry does not
// have.
struct Waiting {
  int64_t count;
  Pair pair;
  uint32_t words;  // index into Trainer::waiting_words_
  bool operator<(const Waiting& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// Keeps the last of equal merges. A pair that was queued twice was merged twice, and Hugging Face's
// table keeps its later rank.
void keep_last_of_each(std::vector<std::array<int32_t, 3>>& merges) {
  std::set<std::array<int32_t, 3>> seen;
  std::vector<std::array<int32_t, 3>> kept;
  for (auto merge = merges.rbegin(); merge != merges.rend(); ++merge) {
    if (seen.insert(*merge).second) kept.push_back(*merge);
  }
  merges.assign(kept.rbegin(), kept.rend());
}

class Trainer {
 public:
  Trainer(std::span<const WordCounts::Word> words, const BpeTraining& training);
  BpeDescription run(const std::function<void(int64_t tokens)>& on_merge);

 private:
  void add_token(const std::string& text);
  void add_words(std::span<const WordCounts::Word> words);
  void change(Pair pair, int64_t by, uint32_t word);
  void merge_in(uint32_t word, Pair pair, int32_t into);
  void enqueue(Pair pair);

  struct Word {
    size_t begin;
    uint32_t length;
    int64_t count;
  };
  BpeTraining training_;
  std::vector<int32_t> symbols_;  // the symbols of all words, concatenated
  std::vector<Word> words_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  PairCounts pairs_;
  std::vector<Pair> touched_;  // pairs that have new words in this merge
  std::vector<std::vector<uint32_t>> waiting_words_;
  std::priority_queue<Waiting> queue_;
};

Trainer::Trainer(std::span<const WordCounts::Word> words, const BpeTraining& training)
    : training_(training) {
  check_training(training);
  for (const std::string& token : training.special_tokens) add_token(token);
  // In the order of the characters instead of the bytes, which gives the ids of Hugging Face's
  // trainer.
  std::vector<std::pair<char32_t, char>> alphabet;
  for (const uint8_t byte : all_bytes()) alphabet.emplace_back(byte_to_character(byte), byte);
  std::sort(alphabet.begin(), alphabet.end());
  for (const auto& [character, byte] : alphabet) {
    add_token(bytes_to_characters(std::string_view(&byte, 1)));
  }
  add_words(words);
}

void Trainer::add_token(const std::string& text) {
  if (ids_.emplace(text, static_cast<int32_t>(tokens_.size())).second) tokens_.push_back(text);
}

void Trainer::add_words(std::span<const WordCounts::Word> words) {
  std::array<int32_t, 256> byte_id;
  for (const uint8_t byte : all_bytes())
    byte_id[byte] = ids_.at(bytes_to_characters(std::string(1, byte)));
  size_t bytes = 0;
  for (const auto& word : words) bytes += word.bytes.size();
  symbols_.reserve(bytes);
  words_.reserve(words.size());
  for (const auto& word : words) {
    const auto index = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), static_cast<uint32_t>(word.bytes.size()), word.count});
    for (const uint8_t byte : word.bytes) symbols_.push_back(byte_id[byte]);
    for (size_t i = words_.back().begin; i + 1 < symbols_.size(); ++i) {
      change({symbols_[i], symbols_[i + 1]}, word.count, index);
    }
  }
}

void Trainer::change(Pair pair, int64_t by, uint32_t word) {
  PairCounts::Slot& slot = pairs_.at(pair);
  slot.count += by;
  // Only words in which the pair is new must be visited later. The other words were added before,
  // and a visit to a word without the pair changes nothing.
  if (by < 0) return;
  if (slot.new_words.empty()) touched_.push_back(pair);
  if (slot.new_words.empty() || slot.new_words.back() != word) slot.new_words.push_back(word);
}

// Merges every occurrence of `pair` in the word, from left to right, and updates the counts of the
// pairs with its neighbors.
void Trainer::merge_in(uint32_t index, Pair pair, int32_t into) {
  Word& word = words_[index];
  int32_t* s = symbols_.data() + word.begin;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < word.length;) {
    const bool here = i + 1 < word.length && s[i] == pair.left && s[i + 1] == pair.right;
    if (!here) {
      s[kept++] = s[i++];
      continue;
    }
    // The left neighbor is the symbol already written, which may be a merge of this pass.
    if (kept > 0) {
      change({s[kept - 1], pair.left}, -word.count, index);
      change({s[kept - 1], into}, word.count, index);
    }
    if (i + 2 < word.length) {
      change({pair.right, s[i + 2]}, -word.count, index);
      change({into, s[i + 2]}, word.count, index);
    }
    s[kept++] = into;
    i += 2;
  }
  word.length = kept;
}

void Trainer::enqueue(Pair pair) {
  PairCounts::Slot& slot = pairs_.at(pair);
  if (slot.count > 0) {
    queue_.push({slot.count, pair, static_cast<uint32_t>(waiting_words_.size())});
    waiting_words_.push_back(std::move(slot.new_words));
  }
  slot.new_words = {};
}

BpeDescription Trainer::run(const std::function<void(int64_t tokens)>& on_merge) {
  BpeDescription out;
  out.words = training_.words;
  for (;;) {
    for (const Pair pair : touched_) enqueue(pair);
    touched_.clear();
    if (std::ssize(tokens_) >= training_.vocabulary || queue_.empty()) break;
    Waiting top = queue_.top();
    queue_.pop();
    // Counts of queued pairs change when other merges consume their symbols.
    if (const int64_t count = pairs_.at(top.pair).count; count != top.count) {
      top.count = count;
      queue_.push(top);
      continue;
    }
    if (top.count < std::max<int64_t>(training_.least_count, 1)) break;
    if (on_merge) on_merge(std::ssize(tokens_));
    const auto [left, right] = top.pair;
    const std::string text = tokens_[left] + tokens_[right];
    add_token(text);
    const int32_t into = ids_.at(text);
    out.merges.push_back({left, right, into});
    for (const uint32_t word : waiting_words_[top.words]) merge_in(word, top.pair, into);
    waiting_words_[top.words] = {};
  }
  keep_last_of_each(out.merges);
  for (int32_t id = 0; id < std::ssize(tokens_); ++id) out.vocabulary.emplace_back(tokens_[id], id);
  for (const std::string& token : training_.special_tokens) {
    AddedToken added{.id = ids_.at(token), .content = token, .normalized = false, .special = true};
    out.added_tokens.push_back(std::move(added));
  }
  return out;
}

}  // namespace

void check_training(const BpeTraining& training) {
  std::set<std::string> seen;
  for (const std::string& token : training.special_tokens) {
    if (token.empty()) throw Error("a special token is empty. Remove it.");
    if (!seen.insert(token).second)
      throw Error("duplicate special token '{}'. Remove one of them.", token);
  }
  const int64_t fixed = std::ssize(training.special_tokens) + 256;
  if (training.vocabulary < fixed || training.vocabulary > kLargestTokenId) {
    throw Error("the vocabulary has {} entries, expected {} (special tokens and 256 bytes) to {}",
                training.vocabulary, fixed, kLargestTokenId);
  }
}

BpeDescription train_bpe(std::span<const WordCounts::Word> words, const BpeTraining& training,
                         const std::function<void(int64_t tokens)>& on_merge) {
  return Trainer(words, training).run(on_merge);
}

}  // namespace tessera::data
