// How often each word stands in a corpus: what byte-pair training needs of it.
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
  explicit WordCounts(int threads, WordSplit split = WordSplit::kGpt2);

  // Splits each text by itself and counts its words. Threads share the texts, so one
  // call should bring many. Invalid UTF-8 stays in the words, and is reported.
  EncodeReport add(std::span<const std::string_view> texts);

  struct Word {
    std::string_view bytes;
    int64_t count;
  };
  // All words, sorted by their bytes; views into this object, until the next add().
  std::vector<Word> words();

 private:
  // Open addressing; bytes of all words in one string.
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
  std::vector<Table> tables_;  // one a thread
};

// The lines of a text, each with its newline: what Hugging Face's trainer takes for a text when it
// reads files, so that merges come out the same.
std::vector<std::string_view> lines_with_ends(std::string_view text);

}  // namespace tessera::data
