// Counts the words of a corpus in one hash table per thread; the tables are added up at the end, so
// threads share nothing while they count. The result is sorted by bytes, so it does not depend on
// the number of threads.
#include "data/bpe_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/on_threads.h"

namespace tessera::data {
namespace {

constexpr size_t kBytesWorthAThread = size_t{1} << 18;

}  // namespace

// An open-addressing table with linear probing, at most half full. A slot has the index of an entry
// plus 1, or 0 if it is empty; all words are in one array of bytes, without an allocation per word.
void WordCounts::Table::count(std::string_view word, int64_t times) {
  const uint64_t hash = hash_bytes(word);
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    Entry& entry = entries_[slots_[i] - 1];
    if (entry.hash != hash || entry.length != word.size()) continue;
    if (std::memcmp(bytes_.data() + entry.offset, word.data(), word.size()) != 0) continue;
    entry.count += times;
    return;
  }
  entries_.push_back({bytes_.size(), word.size(), hash, times});
  bytes_ += word;
  CHECK(entries_.size() < UINT32_MAX, "{} different words", entries_.size());
  slots_[i] = static_cast<uint32_t>(entries_.size());
  if (entries_.size() * 2 > slots_.size()) grow();
}

void WordCounts::Table::grow() {
  // The words and their hashes stay in entries_; only the index is rebuilt.
  slots_.assign(slots_.size() * 2, 0);
  const size_t mask = slots_.size() - 1;
  for (size_t e = 0; e < entries_.size(); ++e) {
    size_t i = entries_[e].hash & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = static_cast<uint32_t>(e + 1);
  }
}

WordCounts::Word WordCounts::Table::word(size_t i) const {
  const Entry& e = entries_[i];
  return {std::string_view(bytes_).substr(e.offset, e.length), e.count};
}

WordCounts::WordCounts(int threads, PretokenizerKind split)
    : pretokenizer_(unicode_table(), split), tables_(std::max(threads, 1)) {}

EncodeReport WordCounts::count_texts(std::span<const std::string_view> texts, Table& table) const {
  EncodeReport report;
  for (const std::string_view text : texts) {
    report.add(utf8_report(text));
    for (size_t from = 0; from < text.size();) {
      const size_t end = pretokenizer_.word_end(text, from);
      table.count(text.substr(from, end - from), 1);
      from = end;
    }
  }
  return report;
}

EncodeReport WordCounts::add(std::span<const std::string_view> texts) {
  size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  // A thread costs more than it saves for less text than kBytesWorthAThread.
  const size_t parts = std::clamp<size_t>(bytes / kBytesWorthAThread, 1, tables_.size());
  std::vector<EncodeReport> reports(parts);
  std::vector<std::span<const std::string_view>> shares(parts);
  // Divides the texts into contiguous ranges of about equal bytes. The last range has the rest.
  size_t next = 0, done = 0;
  for (size_t p = 0; p < parts; ++p) {
    const size_t first = next;
    while (next < texts.size() && (p + 1 == parts || done < bytes * (p + 1) / parts)) {
      done += texts[next++].size();
    }
    shares[p] = texts.subspan(first, next - first);
  }
  on_threads(parts, [&](size_t p) { reports[p] = count_texts(shares[p], tables_[p]); });
  EncodeReport all;
  for (const EncodeReport& report : reports) all.add(report);
  return all;
}

std::vector<WordCounts::Word> WordCounts::words() {
  Table& all = tables_[0];
  for (size_t t = 1; t < tables_.size(); ++t) {
    for (size_t i = 0; i < tables_[t].size(); ++i) {
      const Word word = tables_[t].word(i);
      all.count(word.bytes, word.count);
    }
    // Frees each table before the next one is added, since both can be large.
    tables_[t] = Table();
  }
  std::vector<Word> words;
  words.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) words.push_back(all.word(i));
  std::sort(words.begin(), words.end(),
            [](const Word& a, const Word& b) { return a.bytes < b.bytes; });
  return words;
}

std::vector<std::string_view> lines_with_ends(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const size_t size = newline == std::string_view::npos ? text.size() : newline + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

}  // namespace tessera::data
