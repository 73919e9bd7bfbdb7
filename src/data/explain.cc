// Traces a sample back: from token ranges to documents (by bisection of the index), to bytes (by
// decoding the tokens before the range), and to lines of the source files (by reading them again in
// the order in which the dataset was built, as PREFIX.json describes).
#include "data/explain.h"

#include <algorithm>
#include <filesystem>

#include "base/config.h"
#include "base/error.h"
#include "data/documents.h"

namespace tessera::data {
namespace {

// Returns the document that contains a sequence: the last one that starts at or before it. Empty
// documents start at the same sequence as the next one and precede it.
int64_t document_of(const IndexedDataset& data, int64_t sequence) {
  int64_t low = 0, high = data.documents();
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (data.first_sequence(middle) <= sequence ? low : high) = middle;
  }
  return low;
}

void find_text(const IndexedDataset& data, const Tokenizer& tokenizer, PieceOrigin& origin) {
  const SamplePiece& p = origin.piece;
  std::vector<int32_t> ids(p.from + p.count);
  data.read(data.first_token(p.sequence), ids);
  const auto all = std::span<const int32_t>(ids);
  auto here = all.subspan(p.from);
  // The end-of-text token is not part of the document's text.
  const auto end = tokenizer.end_of_text();
  if (end && !here.empty() && here.back() == *end) here = here.first(here.size() - 1);
  // Decoded from the beginning: a decoder may remove a space in front of the first token only.
  const std::string text = tokenizer.decode(all.first(p.from + here.size()));
  const size_t from = std::min(tokenizer.decode(all.first(p.from)).size(), text.size());
  origin.text_from = from;
  origin.text = text.substr(from);
  origin.text_to = origin.text_from + std::ssize(origin.text);
}

template <class E>
E entry_named(const std::string& name, E fallback, E last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of_entry(static_cast<E>(i)) == name) return static_cast<E>(i);
  }
  return fallback;
}

// Reads one source until all origins in `wanted` are found.
void locate_in(const SourceInfo& source, const DatasetInfo& about,
               const std::vector<PieceOrigin*>& wanted) {
  if (source.name == "-" || !std::filesystem::exists(source.name)) return;
  int64_t last = 0;
  for (const PieceOrigin* o : wanted) last = std::max(last, o->source_document);
  DocumentStream stream(
      {.files = {source.name}, .skipped = 0, .left_out = {}},
      {.split = entry_named(about.split, Split::kNone, Split::kParagraphs),
       .format = entry_named(about.format, TextFormat::kAuto, TextFormat::kParquet),
       .key = about.key,
       .piece_bytes = int64_t{1} << 20,
       // The file was accepted when the dataset was built, so it is not checked
       // again.
       .any_bytes = true});
  Document document;
  bool begins = true;
  // A document may be read in pieces; the number increases after its last piece.
  for (int64_t d = 0; d <= last && stream.next(document); d += document.ends) {
    for (PieceOrigin* o : wanted) {
      if (!begins || o->source_document != d) continue;
      o->line = document.line;
      o->offset = document.offset;
    }
    begins = document.ends;
  }
}

}  // namespace

std::vector<PieceOrigin> explain(const IndexedDataset& data, const std::vector<SamplePiece>& pieces,
                                 const std::optional<DatasetInfo>& about,
                                 const Tokenizer* tokenizer, bool locate) {
  std::vector<PieceOrigin> origins;
  for (const SamplePiece& p : pieces) {
    PieceOrigin o;
    o.piece = p;
    o.document = document_of(data, p.sequence);
    o.document_tokens = data.length(p.sequence);
    if (tokenizer != nullptr) find_text(data, *tokenizer, o);
    origins.push_back(std::move(o));
  }
  if (!about) return origins;
  int64_t first = 0;  // number of the first document of the source
  for (const SourceInfo& source : about->sources) {
    std::vector<PieceOrigin*> inside;
    for (PieceOrigin& o : origins) {
      if (o.document < first || o.document >= first + source.documents) continue;
      o.source = source.name;
      o.source_document = o.document - first;
      inside.push_back(&o);
    }
    first += source.documents;
    if (locate && !inside.empty()) locate_in(source, *about, inside);
  }
  return origins;
}

}  // namespace tessera::data
