// Counts the words of a corpus, for BPE training.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pretokenize.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

namespace tessera::data {

class WordCounts {
 public:
  explicit WordCounts(int threads, PretokenizerKind split = PretokenizerKind::kGpt2);

  // Splits each text by itself and counts its words. Threads divide the texts among themselves, so
  // one call should have many. Invalid UTF-8 stays in the words, and is reported.
  EncodeReport add(std::span<const std::string_view> texts);

  struct Word {
    std::string_view bytes;
    int64_t count;
  };
  // Returns all words, sorted by their bytes. They are views into this object, valid until the next
  // add().
  std::vector<Word> words();

 private:
  // A hash table with open addressing. The bytes of all words are in one string.
  class Table {
   public:
    void count(std::string_view word, int64_t times);
    size_t size() const { return entries_.size(); }
    Word word(size_t i) const;

   private:
    struct Entry {
      size_t offset, length;
      uint64_t hash;
      int64_t count;
    };
    void grow();
    std::vector<uint32_t> slots_ = std::vector<uint32_t>(1 << 12);  // index + 1; 0: empty
    std::vector<Entry> entries_;
    std::string bytes_;
  };
  EncodeReport count_texts(std::span<const std::string_view> texts, Table& table) const;

  Pretokenizer pretokenizer_;
  std::vector<Table> tables_;  // one per thread
};

// Returns the lines of a text, each with its newline. Hugging Face's trainer treats each line of a
// file as one text, so the merges are the same.
std::vector<std::string_view> lines_with_ends(std::string_view text);

}  // namespace tessera::data
