// Learns a byte-level BPE vocabulary (Sennrich et al. 2016; Radford et al. 2019).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/bpe_words.h"
#include "data/tokenizer_json.h"

namespace tessera::data {

struct BpeTraining {
  int32_t vocabulary = 8192;  // number of entries, including special tokens and the 256 bytes
  int64_t least_count = 1;    // pairs that are less frequent are not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  PretokenizerKind words = PretokenizerKind::kGpt2;  // the split with which the words were counted
};

// Throws Error if `vocabulary` is too small for the special tokens and the bytes, or if a special
// token is empty or a duplicate. Callers use it before they count a corpus, which can take hours;
// train_bpe() checks the same.
void check_training(const BpeTraining& training);

// Learns a vocabulary. Ids: first the special tokens, then the 256 bytes in the order of the
// characters that represent them, then one per merge. Each step merges the most frequent pair of
// neighboring tokens within words; among equally frequent pairs, the one with the lower ids.
// Vocabulary and merges are those of Hugging Face's
// BpeTrainer(initial_alphabet=ByteLevel.alphabet()) on the same words. The vocabulary is smaller
// than requested if the words have no more pairs. `on_merge` is called before each merge with the
// number of tokens so far.
BpeDescription train_bpe(std::span<const WordCounts::Word> words, const BpeTraining& training,
                         const std::function<void(int64_t tokens)>& on_merge = {});

}  // namespace tessera::data
