// Encodes many texts on several threads. Long texts are split where that does not change the ids,
// so that one long text does not keep a single thread busy at the end.
#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/on_threads.h"
#include "data/tokenizer.h"

namespace tessera::data {
namespace {

// The size of a unit of work: long enough to amortize the hand-over, short enough to balance the
// load.
constexpr size_t kPieceBytes = size_t{1} << 18;

struct Piece {
  size_t text;
  std::string_view bytes;
  std::vector<int32_t> ids;
  EncodeReport report;
};

std::vector<Piece> cut(const Tokenizer& tokenizer, std::span<const std::string_view> texts) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < texts.size(); ++t) {
    std::string_view left = texts[t];
    // A remainder of up to two units is not split further.
    while (left.size() > 2 * kPieceBytes) {
      const size_t end = tokenizer.last_cut(left.substr(0, kPieceBytes));
      if (end == 0) break;
      pieces.push_back({t, left.substr(0, end), {}, {}});
      left.remove_prefix(end);
    }
    pieces.push_back({t, left, {}, {}});
  }
  return pieces;
}

}  // namespace

void encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                  std::span<EncodeCache> caches, std::vector<std::vector<int32_t>>& ids,
                  EncodeReport* report) {
  CHECK(!caches.empty(), "encode_batch without a cache");
  std::vector<Piece> pieces = cut(tokenizer, texts);
  std::atomic<size_t> next = 0;
  on_threads(std::max<size_t>(std::min(caches.size(), pieces.size()), 1), [&](size_t thread) {
    // Threads claim the next unit by a shared counter (dynamic scheduling).
    for (size_t p = next++; p < pieces.size(); p = next++) {
      // English has about 4 bytes per token. A text with more tokens only costs a reallocation.
      pieces[p].ids.reserve(pieces[p].bytes.size() / 3 + 4);
      tokenizer.encode(pieces[p].bytes, pieces[p].ids, caches[thread], &pieces[p].report);
    }
  });
  ids.assign(texts.size(), {});
  for (Piece& piece : pieces) {
    std::vector<int32_t>& all = ids[piece.text];
    if (all.empty()) {
      all = std::move(piece.ids);
    } else {
      all.insert(all.end(), piece.ids.begin(), piece.ids.end());
    }
    if (report != nullptr) report->add(piece.report);
  }
}

}  // namespace tessera::data
