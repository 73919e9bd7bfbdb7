// Learns a byte-level BPE vocabulary (Sennrich et al. 2016; Radford et al. 2019).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/bpe_words.h"
#include "data/tokenizer_json.h"

namespace tessera::data {

struct BpeTraining {
  int32_t vocabulary = 8192;  // entries, with the special tokens and the 256 bytes
  int64_t least_count = 1;    // a pair that stands less often is not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  WordSplit words = WordSplit::kGpt2;  // that the words were counted with
};

// Throws Error where `vocabulary` has no room for the special tokens and the bytes, or where a
// special token is empty or stands twice. To be asked before hours of counting; train_bpe does too.
void check_training(const BpeTraining& training);

// Ids: first the special tokens, then the 256 bytes in the order of the characters that stand for
// them, then one for each merge. Each turn merges the most frequent pair of neighbours within
// words, of two equally frequent ones that with the lower ids. Vocabulary and merges are those of
// Hugging Face's BpeTrainer(initial_alphabet=ByteLevel.alphabet()) on the same words.
// The vocabulary is smaller than asked for where the words have no more pairs.
BpeDescription train_bpe(std::span<const WordCounts::Word> words, const BpeTraining& training);

}  // namespace tessera::data
