// The likeliest cut of a text into pieces of a unigram model (Kudo 2018, by Viterbi's algorithm),
// ids as those of the sentencepiece library from release 0.2.2 on: scores are added up in float
// from the beginning, a cut is replaced only by a better one, and sums that leave ±100,000 begin
// anew, so a text may be of any length. (Earlier releases compare sums in double, which decides
// otherwise between cuts of equal scores, "V" "II" and "VI" "I": in 7 of 1,000 random strings.)
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/sentencepiece_model.h"

namespace tessera::data {

class UnigramCut {
 public:
  explicit UnigramCut(const SentencePieceModel& model);

  // Appends the ids of a text that is normalised already. A character without a piece becomes its
  // bytes where the model has them; a run of such becomes one unknown piece where it has not.
  void cut(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  // The pieces as a trie: children of a node stand side by side, by rising label.
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    int32_t id = -1;
  };
  struct End;  // of the best cut up to a place

  uint32_t child(uint32_t node, char label) const;  // 0, the root: none
  size_t extend(std::string_view text, size_t from, std::vector<End>& ends) const;
  void append(std::string_view text, int32_t id, bool behind_unknown,
              std::vector<int32_t>& ids) const;

  std::vector<Node> nodes_;
  std::vector<char> labels_;    // on the way to each node
  std::vector<float> scores_;   // by id; of a user's own symbol 0.1 for each byte but the first
  std::vector<int32_t> bytes_;  // ids of the 256; empty: no byte fallback
  float unknown_score_ = 0;
  int32_t unknown_ = 0;
};

}  // namespace tessera::data
