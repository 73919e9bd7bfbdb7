#include "data/unigram_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera {
namespace {

constexpr float kUnknownPenalty = 10;  // below the least score of a piece
constexpr float kLargestSum = 100000;  // beyond it a float loses what tells cuts apart

// Of the character that begins with this byte; what is no UTF-8 was replaced by the normaliser.
size_t character_bytes(char first) {
  const auto c = static_cast<unsigned char>(first);
  return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

bool is_cut_to(PieceType t) { return t == PieceType::kNormal || t == PieceType::kUserDefined; }

struct Entry {
  std::string_view text;
  int32_t id;
};

}  // namespace

struct UnigramCut::End {
  float sum = 0;
  int32_t id = -1;
  int64_t from = -1;  // where its last piece begins; −1: nothing ends here
};

UnigramCut::UnigramCut(const SentencePieceModel& model) {
  std::vector<Entry> entries;
  float least = std::numeric_limits<float>::max();
  for (const SentencePieceModel::Piece& p : model.pieces) {
    const auto id = static_cast<int32_t>(scores_.size());
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
    for (size_t id = 0; id < model.pieces.size(); ++id)
      if (model.pieces[id].type == PieceType::kByte)
        bytes_[static_cast<size_t>(byte_of(model.pieces[id].text))] = static_cast<int32_t>(id);
  }

  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
  struct Range {
    size_t begin, end, depth;  // entries that share the first `depth` bytes
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};  // of each node
  nodes_.emplace_back();
  labels_.push_back(0);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    auto [at, end, depth] = ranges[n];
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

uint32_t UnigramCut::child(uint32_t node, char label) const {
  const Node& n = nodes_[node];
  const auto first = labels_.begin() + n.first_child, last = first + n.children;
  const auto less = [](char a, char b) {  // as std::string_view orders
    return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
  };
  const auto found = std::lower_bound(first, last, label, less);
  return found == last || *found != label ? 0 : static_cast<uint32_t>(found - labels_.begin());
}

// All pieces that begin at `from`, or the unknown one for a character that is none. Gives the last
// place that one of them ends at.
size_t UnigramCut::extend(std::string_view text, size_t from, std::vector<End>& ends) const {
  size_t furthest = from;
  const auto reach = [&](size_t to, float score, int32_t id) {
    furthest = std::max(furthest, to);
    const float sum = score + ends[from].sum;
    if (ends[to].from < 0 || sum > ends[to].sum) ends[to] = {sum, id, static_cast<int64_t>(from)};
  };
  const size_t character = from + std::min(character_bytes(text[from]), text.size() - from);
  bool known = false;
  uint32_t node = 0;
  for (size_t to = from; to < text.size();) {
    node = child(node, text[to++]);
    if (node == 0) break;
    if (nodes_[node].id < 0) continue;
    reach(to, scores_[static_cast<size_t>(nodes_[node].id)], nodes_[node].id);
    known = known || to == character;
  }
  if (!known) reach(character, unknown_score_, unknown_);
  return furthest;
}

void UnigramCut::append(std::string_view text, int32_t id, bool behind_unknown,
                        std::vector<int32_t>& ids) const {
  if (id != unknown_)
    ids.push_back(id);
  else if (!bytes_.empty())
    for (const char c : text) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
  else if (!behind_unknown)
    ids.push_back(id);
}

void UnigramCut::cut(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<End> ends(text.size() + 1);
  size_t furthest = 0;
  for (size_t at = 0; at < text.size();
       at += std::min(character_bytes(text[at]), text.size() - at)) {
    if (const float sum = ends[at].sum; std::abs(sum) > kLargestSum)
      for (size_t i = at; i <= furthest; ++i) ends[i].sum -= sum;
    furthest = std::max(furthest, extend(text, at, ends));
  }
  std::vector<std::pair<size_t, size_t>> pieces;  // begin and end, the last first
  for (size_t end = text.size(); end > 0; end = pieces.back().first)
    pieces.emplace_back(static_cast<size_t>(ends[end].from), end);
  bool unknown = false;
  for (auto p = pieces.rbegin(); p != pieces.rend(); ++p) {
    const int32_t id = ends[p->second].id;
    append(text.substr(p->first, p->second - p->first), id, unknown, ids);
    unknown = id == unknown_;
  }
}

}  // namespace tessera
