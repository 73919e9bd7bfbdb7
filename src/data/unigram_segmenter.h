// The most probable segmentation of a text into pieces of a unigram model (Kudo 2018, by the
// Viterbi algorithm). Ids are those of release 0.2.2 and later of the sentencepiece library: scores
// are added in float from the beginning, a segmentation is only replaced by a better one, and sums
// outside ±100,000 are rebased, so a text may have any length. (Earlier releases compare sums in
// double, which decides differently between segmentations of equal scores such as "V" "II" and "VI"
// "I": in 7 of 1,000 random strings.)
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/sentencepiece_model.h"

namespace tessera::data {

class UnigramSegmenter {
 public:
  explicit UnigramSegmenter(const SentencePieceModel& model);

  // Appends the ids of a normalized text. A character without a piece becomes its bytes if the
  // model has byte pieces. Otherwise a run of such characters becomes one unknown piece.
  void cut(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  // The pieces as a trie. The children of a node are consecutive, in ascending order of labels.
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    int32_t id = -1;
  };
  struct End;  // the best segmentation up to a position

  uint32_t child(uint32_t node, char label) const;  // 0, the root: none
  size_t extend(std::string_view text, size_t from, std::vector<End>& ends) const;
  void append(std::string_view text, int32_t id, bool behind_unknown,
              std::vector<int32_t>& ids) const;

  std::vector<Node> nodes_;
  std::vector<char> labels_;    // label of the edge to each node
  std::vector<float> scores_;   // score of each id; user-defined: 0.1 per byte after the first
  std::vector<int32_t> bytes_;  // ids of the 256 byte pieces; empty: no byte fallback
  float unknown_score_ = 0;
  int32_t unknown_ = 0;
};

}  // namespace tessera::data
