// Segments normalized text with a unigram language model (Kudo 2018): the Viterbi algorithm over
// positions, with edges from a trie of the pieces. For each position, the best sum of scores (log
// probabilities) of any segmentation up to it is stored; pieces that begin there extend it. The
// time is O(n · longest piece).
#include "data/unigram_segmenter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera::data {
namespace {

constexpr float kUnknownPenalty = 10;  // difference to the lowest score of a piece
constexpr float kLargestSum = 100000;  // above it, a float is too coarse to compare segmentations

// Returns the bytes of the character that begins with this byte. The normalizer has already
// replaced invalid UTF-8.
size_t character_bytes(char first) {
  const unsigned char c = first;
  return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

bool is_cut_to(PieceType t) { return t == PieceType::kNormal || t == PieceType::kUserDefined; }

struct Entry {
  std::string_view text;
  int32_t id;
};

}  // namespace

// The best segmentation that ends at a position.
struct UnigramSegmenter::End {
  float sum = 0;
  int32_t id = -1;
  int64_t from = -1;  // start of its last piece; −1: no segmentation ends here
};

UnigramSegmenter::UnigramSegmenter(const SentencePieceModel& model) {
  std::vector<Entry> entries;
  float least = std::numeric_limits<float>::max();
  for (int32_t id = 0; id < std::ssize(model.pieces); ++id) {
    const SentencePieceModel::Piece& p = model.pieces[id];
    // User-defined symbols have the scores that the library gives them. These are positive, so such
    // symbols always win over pieces, whose log probabilities are negative.
    scores_.push_back(p.type == PieceType::kUserDefined
                          ? static_cast<float>(0.1 * static_cast<double>(p.text.size() - 1))
                          : p.score);
    if (is_cut_to(p.type)) entries.push_back({p.text, id});
    if (p.type == PieceType::kNormal) least = std::min(least, p.score);
    if (p.type == PieceType::kUnknown) unknown_ = id;
  }
  unknown_score_ = least - kUnknownPenalty;
  if (model.byte_fallback) {
    bytes_.resize(256);
    for (int32_t id = 0; id < std::ssize(model.pieces); ++id)
      if (model.pieces[id].type == PieceType::kByte) bytes_[byte_of(model.pieces[id].text)] = id;
  }

  // Builds the trie breadth first from the sorted pieces. A node covers a range of pieces with a
  // common prefix, and the children of a node get consecutive numbers, in the order of their
  // labels, so a child is found by bisection.
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
  struct Range {
    size_t begin, end, depth;  // entries that share the first `depth` bytes
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};  // range of each node
  nodes_.emplace_back();
  labels_.push_back(0);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    auto [at, end, depth] = ranges[n];
    // The shortest of the range is the prefix itself.
    if (at < end && entries[at].text.size() == depth) nodes_[n].id = entries[at++].id;
    nodes_[n].first_child = static_cast<uint32_t>(nodes_.size());
    while (at < end) {
      const char label = entries[at].text[depth];
      const size_t begin = at;
      while (at < end && entries[at].text[depth] == label) ++at;
      ranges.push_back({begin, at, depth + 1});
      nodes_.emplace_back();
      labels_.push_back(label);
      ++nodes_[n].children;
    }
  }
}

uint32_t UnigramSegmenter::child(uint32_t node, char label) const {
  const Node& n = nodes_[node];
  const auto first = labels_.begin() + n.first_child, last = first + n.children;
  // Labels are compared as unsigned bytes, the order in which std::string_view sorted the pieces.
  const auto less = [](unsigned char a, unsigned char b) { return a < b; };
  const auto found = std::lower_bound(first, last, label, less);
  return found == last || *found != label ? 0 : static_cast<uint32_t>(found - labels_.begin());
}

// Extends the best segmentation that ends at `from` by every piece that begins there, and by the
// unknown piece if no piece is exactly the next character. Returns the last position that was
// reached.
size_t UnigramSegmenter::extend(std::string_view text, size_t from, std::vector<End>& ends) const {
  size_t furthest = from;
  const auto reach = [&](size_t to, float score, int32_t id) {
    furthest = std::max(furthest, to);
    const float sum = score + ends[from].sum;
    // Only a better sum replaces an earlier one, so among equal segmentations the first one found
    // is kept, as in the library.
    if (ends[to].from < 0 || sum > ends[to].sum) ends[to] = {sum, id, static_cast<int64_t>(from)};
  };
  const size_t character = from + std::min(character_bytes(text[from]), text.size() - from);
  bool known = false;
  uint32_t node = 0;
  for (size_t to = from; to < text.size();) {
    node = child(node, text[to++]);
    if (node == 0) break;
    if (nodes_[node].id < 0) continue;
    reach(to, scores_[nodes_[node].id], nodes_[node].id);
    known = known || to == character;
  }
  if (!known) reach(character, unknown_score_, unknown_);
  return furthest;
}

void UnigramSegmenter::append(std::string_view text, int32_t id, bool behind_unknown,
                              std::vector<int32_t>& ids) const {
  if (id != unknown_)
    ids.push_back(id);
  else if (!bytes_.empty())
    for (const unsigned char byte : text) ids.push_back(bytes_[byte]);
  else if (!behind_unknown)
    ids.push_back(id);
}

void UnigramSegmenter::cut(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<End> ends(text.size() + 1);
  size_t furthest = 0;
  for (size_t at = 0; at < text.size();
       at += std::min(character_bytes(text[at]), text.size() - at)) {
    // Only differences of sums matter. Subtracting the sum here from all open positions keeps the
    // float's precision in long texts.
    if (const float sum = ends[at].sum; std::abs(sum) > kLargestSum)
      for (size_t i = at; i <= furthest; ++i) ends[i].sum -= sum;
    furthest = std::max(furthest, extend(text, at, ends));
  }
  // Follows the back pointers from the end of the text.
  std::vector<std::pair<size_t, size_t>> pieces;  // begin and end, the last first
  for (size_t end = text.size(); end > 0; end = pieces.back().first)
    pieces.emplace_back(ends[end].from, end);
  bool unknown = false;
  for (auto p = pieces.rbegin(); p != pieces.rend(); ++p) {
    const int32_t id = ends[p->second].id;
    append(text.substr(p->first, p->second - p->first), id, unknown, ids);
    unknown = id == unknown_;
  }
}

}  // namespace tessera::data
