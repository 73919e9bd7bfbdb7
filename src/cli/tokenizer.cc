// tessera tokenizer train | encode | decode | info: trains tokenizers, encodes text; the last two
// are in tokenizer_info.cc.
//
// Input is read in batches of documents, which are encoded by all threads and written in order. So
// memory is bounded for an input of any size, and output appears while the input is still being
// written (a pipe).
#include "data/tokenizer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/config.h"
#include "base/count.h"
#include "base/real.h"
#include "base/tree.h"
#include "cli/arguments.h"
#include "cli/checkpoint_file.h"
#include "cli/status_line.h"
#include "cli/verbs.h"
#include "config/run_section.h"
#include "data/bpe_trainer.h"
#include "data/documents.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/sentencepiece_trainer.h"
#include "train/progress.h"

namespace tessera::cli {
namespace {

// Limits of one batch of documents: they bound the memory, and the delay of output for slow input.
constexpr size_t kBatchBytes = size_t{16} << 20;
constexpr size_t kBatchDocuments = size_t{1} << 16;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

data::Split split_named(const std::string& name) {
  for (const auto split : {data::Split::kNone, data::Split::kLines, data::Split::kParagraphs})
    if (name == name_of_entry(split)) return split;
  throw UsageError("--split is '{}', expected {}", name, data::enum_names(data::Split{}));
}

// A batch of documents, and views of their texts.
struct Batch {
  std::vector<data::Document> documents;
  std::vector<std::string_view> texts;

  // Reads the next batch. Returns false if there are no more documents.
  bool read(data::DocumentStream& stream) {
    documents.clear();
    texts.clear();
    size_t bytes = 0;
    for (data::Document d; bytes < kBatchBytes && documents.size() < kBatchDocuments;) {
      if (!stream.next(d)) break;
      bytes += d.text.size();
      documents.push_back(std::move(d));
    }
    for (const data::Document& d : documents) texts.emplace_back(d.text);
    return !documents.empty();
  }
};

// Counts the bytes that are not UTF-8 in all input, and stores the location of the first one.
class InvalidBytes {
 public:
  void add(const data::EncodeReport& report, const Batch& batch,
           const data::DocumentStream& stream) {
    if (first_.empty() && report.first_invalid >= 0) {
      // The report counts bytes over all texts; `place` becomes the byte in one of them.
      int64_t place = report.first_invalid, d = 0;
      for (; place >= std::ssize(batch.documents[d].text); ++d)
        place -= std::ssize(batch.documents[d].text);
      const data::Document& found = batch.documents[d];
      const std::string& file = stream.sources()[found.source];
      const auto end = found.text.begin() + place;
      first_ = fmt::format("{}:{} (byte {} of the file)", file == "-" ? "standard input" : file,
                           found.line + std::count(found.text.begin(), end, '\n'),
                           format_count(found.offset + place));
    }
    total_.add(report);
  }
  void warn() const {
    if (total_.invalid_bytes == 0) return;
    fmt::print(stderr, "not UTF-8: {} byte{}, the first at {}. ",
               format_count(total_.invalid_bytes), total_.invalid_bytes == 1 ? "" : "s", first_);
    if (total_.replaced_bytes == 0)
      fmt::print(stderr, "They are encoded as single bytes, without loss.\n");
    else
      fmt::print(stderr, "{} of them have no token and are replaced by U+FFFD.\n",
                 format_count(total_.replaced_bytes));
  }
  void put(Tree& t) const {
    t.set("bytes", Tree(total_.bytes));
    t.set("invalid_bytes", Tree(total_.invalid_bytes));
    t.set("replaced_bytes", Tree(total_.replaced_bytes));
    t.set("first_invalid", Tree(first_));
  }
  const data::EncodeReport& total() const { return total_; }

 private:
  data::EncodeReport total_;
  std::string first_;
};

struct TrainOptions {
  std::vector<std::string> inputs, special;
  std::string out, key = "text", kind = "byte_bpe", normalizer, words = "gpt2";
  int64_t threads = 0, least_count = 1, vocabulary = 8192, sentinels = 0;
  double coverage = data::SentencePieceTraining{}.coverage;
  bool json = false, no_byte_fallback = false, any_bytes = false, force = false;
};

bool parse_train(Args args, TrainOptions& o) {
  Arguments arguments("tokenizer train",
                      "Train a tokenizer on text: a byte-level BPE as tokenizer.json, which "
                      "Hugging Face's libraries read too, or a SentencePiece model.",
                      "tessera tokenizer train --vocabulary 8192 --out t.json book.txt texts/");
  arguments.option(o.out, "--out", "T", "tokenizer.json or SentencePiece model to write", true);
  arguments.option(o.kind, "--kind", "KIND",
                   "byte_bpe (a tokenizer.json) | unigram | bpe (SentencePiece, as T5 and LLaMA)");
  arguments.option(o.words, "--words", "SPLIT", "byte_bpe: pre-tokenizer, gpt2 | qwen2 | llama3");
  arguments.option(o.vocabulary, "--vocabulary", "N", "size, with special tokens and 256 bytes");
  arguments.option(o.special, "--special", "TOKEN",
                   "special token (repeatable); byte_bpe: first is id 0, default <|endoftext|>");
  arguments.option(o.least_count, "--least-count", "N",
                   "byte_bpe: minimum count of a pair that is merged");
  arguments.option(o.sentinels, "--sentinels", "N",
                   "SentencePiece: number of sentinels <extra_id_0>, … (last ids; T5: 100)");
  arguments.option(o.coverage, "--coverage", "SHARE",
                   "SentencePiece: share of the text's characters that are pieces");
  arguments.option(o.normalizer, "--normalizer", "NAME",
                   "SentencePiece: identity | nfkc | nmt_nfkc | nfkc_cf | nmt_nfkc_cf");
  arguments.flag(o.no_byte_fallback, "--no-byte-fallback",
                 "SentencePiece: encode characters without a piece as unknown, not as bytes");
  arguments.option(o.key, "--key", "KEY", "JSON Lines: the key of the text");
  arguments.flag(o.any_bytes, "--any-bytes", "accept bytes that are not UTF-8, unchanged");
  arguments.option(o.threads, "--threads", "N", "threads; 0: all cores that this process may use");
  add_force(arguments, o.force);
  arguments.json(o.json);
  arguments.many(o.inputs, "FILE", "files, folders or '-'", 1);
  if (!arguments.parse(args)) return false;
  if (o.vocabulary < 0 || o.vocabulary > data::kLargestTokenId) {
    throw UsageError("--vocabulary is {}, expected 257 to {}", o.vocabulary, data::kLargestTokenId);
  }
  return true;
}

data::PretokenizerKind word_split(const std::string& name) {
  for (const auto w : {data::PretokenizerKind::kGpt2, data::PretokenizerKind::kQwen2,
                       data::PretokenizerKind::kLlama3})
    if (name == name_of_entry(w)) return w;
  throw UsageError("--words is '{}', expected gpt2, qwen2 or llama3", name);
}

// Shows the share of the inputs that is read, if a line is due.
void show_reading(StatusLine& status, const data::DocumentStream& stream) {
  if (!status.is_due()) return;
  const int64_t read = stream.bytes_read(), all = stream.bytes_total();
  status.show(all > 0 ? fmt::format("reading: {} {:.0f} %", train::format_bar(ratio(read, all), 20),
                                    100 * ratio(read, all))
                      : fmt::format("reading: {}", bytes_text(read)));
}

// Counts the pre-tokens of lines. Lines include their line ends, as in Hugging Face's trainer.
void count_lines(data::DocumentStream& stream, data::WordCounts& counts, InvalidBytes& invalid) {
  StatusLine status;
  Batch batch;
  while (batch.read(stream)) {
    show_reading(status, stream);
    std::vector<std::string_view> lines;
    for (data::Document& document : batch.documents) {
      document.text += '\n';
      const auto ours = data::lines_with_ends(document.text);
      lines.insert(lines.end(), ours.begin(), ours.end());
    }
    invalid.add(counts.add(lines), batch, stream);
  }
}

data::SourceList sources_for(const TrainOptions& o) {
  data::SourceList sources = data::list_sources(o.inputs);
  data::check_output(o.out, sources);
  data::refuse_existing(o.out, o.force);
  return sources;
}

void write_out(const Path& out, std::string_view bytes) {
  if (out.has_parent_path()) std::filesystem::create_directories(out.parent_path());
  write_file(out, bytes);
}

data::SentencePieceTraining sentencepiece_training(const TrainOptions& o) {
  data::SentencePieceTraining training;
  if (o.kind != "unigram" && o.kind != "bpe") {
    throw UsageError("--kind is '{}', expected byte_bpe, unigram or bpe", o.kind);
  }
  if (o.kind == "bpe") training.kind = data::SentencePieceKind::kBpe;
  training.vocabulary = static_cast<int32_t>(o.vocabulary);
  training.sentinels =
      static_cast<int32_t>(std::clamp<int64_t>(o.sentinels, -1, data::kLargestTokenId));
  training.coverage = o.coverage;
  training.byte_fallback = !o.no_byte_fallback;
  training.normalizer = o.normalizer;
  training.user_tokens = o.special;
  data::check_training(training);
  return training;
}

int train_pieces(const TrainOptions& o) {
  const data::SentencePieceTraining training = sentencepiece_training(o);
  const auto start = std::chrono::steady_clock::now();
  data::DocumentStream stream(
      sources_for(o), {.split = data::Split::kLines, .key = o.key, .any_bytes = o.any_bytes});
  data::Document document;
  int64_t bytes = 0;
  StatusLine status;
  const data::NextLine next = [&](std::string& line) {
    show_reading(status, stream);
    if (!stream.next(document)) return false;
    bytes += std::ssize(document.text);
    line = document.text;
    return true;
  };
  const std::string model = data::train_sentencepiece(next, training);
  status.erase();
  write_out(o.out, model);
  const auto pieces = std::ssize(data::read_sentencepiece_model(model, o.out).pieces);
  if (o.json) {
    Tree t;
    t.set("out", Tree(o.out));
    t.set("vocabulary", Tree(pieces));
    t.set("bytes", Tree(bytes));
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  fmt::print("  read     {} bytes\n", format_count(bytes));
  fmt::print("  learned  {} pieces   {:.1f} s\n", format_count(pieces), seconds_since(start));
  fmt::print("  wrote    {}\n", o.out);
  return 0;
}

// Trains a byte-level BPE in two passes: counts the pre-tokens of all lines (merges never cross
// pre-tokens, so training needs only their counts), then merges pairs by frequency.
int train(Args args) {
  TrainOptions o;
  if (!parse_train(args, o)) return 0;
  if (o.kind != "byte_bpe") return train_pieces(o);
  data::BpeTraining training;
  training.vocabulary = static_cast<int32_t>(o.vocabulary);
  training.least_count = o.least_count;
  if (!o.special.empty()) training.special_tokens = o.special;
  training.words = word_split(o.words);
  data::check_training(training);

  const auto start = std::chrono::steady_clock::now();
  data::DocumentStream stream(
      sources_for(o), {.split = data::Split::kLines, .key = o.key, .any_bytes = o.any_bytes});
  data::WordCounts counts(threads_or_all(o.threads), training.words);
  InvalidBytes invalid;
  count_lines(stream, counts, invalid);
  const auto words = counts.words();
  if (words.empty()) throw Error("no text in {}", fmt::join(o.inputs, ", "));
  const double count_s = seconds_since(start);
  StatusLine status;
  const data::BpeDescription bpe = data::train_bpe(words, training, [&](int64_t tokens) {
    if (status.is_due())
      status.show(fmt::format("merging: {} of {} entries", format_count(tokens),
                              format_count(o.vocabulary)));
  });
  status.erase();
  const double all_s = seconds_since(start);
  write_out(o.out, data::write_tokenizer_json(bpe));

  invalid.warn();
  if (o.json) {
    Tree t;
    t.set("out", Tree(o.out));
    t.set("vocabulary", Tree(std::ssize(bpe.vocabulary)));
    t.set("merges", Tree(std::ssize(bpe.merges)));
    t.set("words", Tree(std::ssize(words)));
    invalid.put(t);
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  fmt::print("  read    {} bytes, {} different words   {:.1f} s\n",
             format_count(invalid.total().bytes), format_count(std::ssize(words)), count_s);
  fmt::print("  merged  {} pairs, vocabulary {}   {:.1f} s\n", format_count(std::ssize(bpe.merges)),
             format_count(std::ssize(bpe.vocabulary)), all_s - count_s);
  if (std::ssize(bpe.vocabulary) < o.vocabulary) {
    fmt::print("  The text has no more pairs; {} entries were requested.\n",
               format_count(o.vocabulary));
  }
  fmt::print("  wrote   {}\n", o.out);
  return 0;
}

// Appends the ids of a document with separators, for a line or a JSON list.
void append_ids(const std::vector<int32_t>& ids, char separator, std::string& out) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += separator;
    fmt::format_to(std::back_inserter(out), "{}", ids[i]);
  }
}

struct EncodeOptions {
  std::string tokenizer, split = "none", key = "text";
  std::vector<std::string> inputs;
  int64_t threads = 0;
  bool json = false, summary = false;
};

bool parse_encode(Args args, EncodeOptions& o) {
  Arguments arguments(
      "tokenizer encode",
      "Print the ids of each document on one line. A plain text file is one document "
      "unless --split is given; .jsonl files have one document per line.",
      "tessera tokenizer encode --tokenizer t.json --split lines book.txt");
  arguments.option(o.tokenizer, "--tokenizer", "T", "a tokenizer.json or SentencePiece model",
                   true);
  arguments.option(o.split, "--split", "HOW", "plain text: none | lines | paragraphs");
  arguments.option(o.key, "--key", "KEY", "JSON Lines: the key of the text");
  arguments.option(o.threads, "--threads", "N", "threads; 0: all cores that this process may use");
  arguments.flag(o.summary, "--summary", "print counts and speed instead of ids");
  arguments.json(o.json);
  arguments.many(o.inputs, "FILE", "files, folders or '-'", 1);
  return arguments.parse(args);
}

struct EncodeTotals {
  int64_t documents = 0, tokens = 0;
  double encode_s = 0, cpu_s = 0;  // without reading and printing; cpu_s: sum over all threads
  InvalidBytes invalid;
};

// Prints the ids of a batch: one line per document, or elements of one JSON list.
void print_ids(const std::vector<std::vector<int32_t>>& ids, bool json, bool first) {
  std::string out;
  for (const auto& document : ids) {
    if (json) out += first ? "[" : ",[";
    append_ids(document, json ? ',' : ' ', out);
    out += json ? ']' : '\n';
    first = false;
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void print_totals(const EncodeOptions& o, const EncodeTotals& totals) {
  const int64_t bytes = totals.invalid.total().bytes;
  const double megabytes = ratio(bytes, 1'000'000);
  if (o.json) {
    Tree t;
    t.set("documents", Tree(totals.documents));
    t.set("tokens", Tree(totals.tokens));
    t.set("encode_s", Tree(totals.encode_s));
    t.set("cpu_s", Tree(totals.cpu_s));
    totals.invalid.put(t);
    // The JSON object began with its list of ids, so the brace of this one is dropped.
    fmt::print("{}{}\n", o.summary ? "{" : "],", to_json(t).substr(1));
  } else if (o.summary) {
    fmt::print("  documents  {}\n", format_count(totals.documents));
    fmt::print("  tokens     {}, {:.2f} bytes per token\n", format_count(totals.tokens),
               ratio(bytes, std::max<int64_t>(totals.tokens, 1)));
    fmt::print("  encoded    in {:.2f} s: {:.1f} MB/s, {:.1f} per busy thread\n", totals.encode_s,
               megabytes / std::max(totals.encode_s, 1e-9),
               megabytes / std::max(totals.cpu_s, 1e-9));
  }
}

int encode(Args args) {
  EncodeOptions o;
  if (!parse_encode(args, o)) return 0;
  const data::DocumentOptions how{.split = split_named(o.split), .key = o.key, .any_bytes = true};
  std::vector<data::EncodeCache> caches(threads_or_all(o.threads));
  const auto tokenizer = data::load_tokenizer(o.tokenizer);
  data::DocumentStream stream(data::list_sources(o.inputs), how);

  Batch batch;
  EncodeTotals totals;
  std::vector<std::vector<int32_t>> ids;
  if (o.json && !o.summary) fmt::print("{{\"ids\":[");
  while (batch.read(stream)) {
    data::EncodeReport report;
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    data::encode_batch(*tokenizer, batch.texts, caches, ids, &report);
    totals.encode_s += seconds_since(start);
    totals.cpu_s += ratio(std::clock() - cpu, CLOCKS_PER_SEC);
    totals.invalid.add(report, batch, stream);
    if (!o.summary) print_ids(ids, o.json, totals.documents == 0);
    totals.documents += std::ssize(ids);
    for (const auto& document : ids) totals.tokens += std::ssize(document);
  }
  print_totals(o, totals);
  totals.invalid.warn();
  return 0;
}

constexpr const char* kGroup = "Tokenizers";
const Verb kVerbs[] = {
    {"train", kGroup, "train a tokenizer on text",
     "tessera tokenizer train --vocabulary 8192 --out t.json book.txt", train},
    {"encode", kGroup, "print the ids of documents",
     "tessera tokenizer encode --tokenizer t.json book.txt", encode},
    {"decode", kGroup, "print the text of ids",
     "tessera tokenizer decode --tokenizer t.json ids.txt", tokenizer_decode},
    {"info", kGroup, "describe a tokenizer file", "tessera tokenizer info t.json", tokenizer_info},
};

}  // namespace

int verb_tokenizer(Args args) { return run_verb("tokenizer", kVerbs, args); }

}  // namespace tessera::cli
