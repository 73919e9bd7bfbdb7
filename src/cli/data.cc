// tessera data build | inspect PREFIX (explain is in data_explain.cc)
//
// `build` only parses arguments and prints results; data/dataset_builder.cc does the work.
// `inspect` reads the whole dataset: opening it checks that index and data agree, and the pass over
// all ids finds the largest one, which must be less than the vocabulary size of the model.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "base/config.h"
#include "base/real.h"
#include "cli/arguments.h"
#include "cli/show.h"
#include "cli/status_line.h"
#include "cli/verbs.h"
#include "config/run_section.h"
#include "data/dataset_builder.h"
#include "data/example_stream.h"
#include "data/indexed_dataset.h"
#include "train/progress.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

// Returns a size such as "1.23 GB". Divides by 1000 while the number has four digits before the
// point.
std::string human_bytes(int64_t n) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto x = static_cast<double>(n);
  size_t unit = 0;
  while (x >= 999.5 && unit + 1 < std::size(kUnits)) {
    x /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", n) : fmt::format("{:.3g} {}", x, kUnits[unit]);
}

// Returns a / b, or 0 if b is 0.
double share(int64_t a, int64_t b) { return b == 0 ? 0 : ratio(a, b); }

// Shows the progress of a build. The remaining time assumes a constant rate. It is shown after 1 %,
// when startup no longer dominates the rate.
void show_progress(StatusLine& status, const data::BuildProgress& p) {
  if (!status.is_due()) return;
  const double now = status.seconds();
  const double done = share(p.bytes_read, p.bytes_total);
  std::string line;
  if (p.bytes_total > 0)
    line = train::format_bar(done, 20) + fmt::format(" {:.0f} %  ", 100 * done);
  line += fmt::format("{}  {}  {} per second", counted(p.documents, "document"),
                      counted(p.tokens, "token"),
                      human_bytes(static_cast<int64_t>(static_cast<double>(p.text_bytes) / now)));
  if (p.bytes_total > 0 && done > 0.01)
    line += "  left " + train::format_duration(now * (1 - done) / done);
  status.show(line);
}

// Returns the enumerator whose name in the list "first|second|…" is `text`. Throws UsageError.
template <class E>
E entry(const std::string& text, const char* option) {
  const std::string names = enum_names(E{});
  for (size_t from = 0, i = 0; from <= names.size(); ++i) {
    const size_t to = std::min(names.find('|', from), names.size());
    if (names.substr(from, to - from) == text) return static_cast<E>(i);
    from = to + 1;
  }
  throw UsageError("{} is '{}', expected {}", option, text, names);
}

Tree summary(const data::DatasetInfo& about, const std::string& prefix) {
  Tree t;
  t.set("prefix", Tree(prefix));
  t.set("documents", Tree(about.documents));
  t.set("tokens", Tree(about.tokens));
  t.set("text_bytes", Tree(about.text_bytes));
  t.set("bytes_per_token", Tree(share(about.text_bytes, about.tokens)));
  t.set("invalid_bytes", Tree(about.invalid_bytes));
  t.set("first_invalid", Tree(about.first_invalid));
  t.set("type", Tree(std::string(name_of(data::dtype_for_vocabulary(about.vocabulary)))));
  return t;
}

void print_text(const data::DatasetInfo& about) {
  fmt::print("  text        {}, {:.2f} bytes per token\n", human_bytes(about.text_bytes),
             share(about.text_bytes, about.tokens));
  if (about.invalid_bytes > 0) {
    show("  not UTF-8   {} bytes, kept unchanged; the first: {}\n",
         format_count(about.invalid_bytes), about.first_invalid);
  }
}

void print_counts(const data::DatasetInfo& about) {
  const auto ids = name_of(data::dtype_for_vocabulary(about.vocabulary));
  fmt::print("  documents   {}\n", format_count(about.documents));
  fmt::print("  tokens      {} ({}, vocabulary {}{})\n", format_count(about.tokens), ids,
             format_count(about.vocabulary),
             about.end_of_text ? fmt::format(", end-of-text token {}", *about.end_of_text)
                               : std::string(", no end-of-text token"));
}

// Prints which inputs were skipped, and which were probably not meant to be read as plain text.
void print_sources(const data::BuildResult& result) {
  if (result.skipped_files > 0) {
    const bool more = result.skipped_files > std::ssize(result.left_out);
    show("  skipped     {} files in folders, whose names are not those of text files: {}{}\n",
         format_count(result.skipped_files), fmt::join(result.left_out, ", "), more ? ", …" : "");
  }
  for (const std::string& table : result.tables)
    show(
        "  warning     {} is read as plain text, with its header and separators. To train on one\n"
        "              column, convert it to JSON Lines and name the column with --key.\n",
        table);
}

Tree as_tree(const data::BuildResult& result, const std::string& out, double seconds) {
  Tree t = summary(result.about, out);
  t.set("skipped_files", Tree(result.skipped_files));
  t.set("bad_lines", Tree(result.bad_lines));
  t.set("left_out", write_value(result.left_out));
  t.set("tables", write_value(result.tables));
  t.set("seconds", Tree(seconds));
  return t;
}

void print_result(const data::BuildResult& result, const std::string& out, double seconds) {
  show("{}.bin, .idx and .json written in {}\n", out, train::format_duration(seconds));
  print_counts(result.about);
  print_text(result.about);
  if (result.bad_lines > 0)
    show("  bad lines   {} skipped; the first: {}\n", format_count(result.bad_lines),
         result.first_bad);
  print_sources(result);
}

// Builds the dataset. Returns nothing if a signal arrived before the end: the progress callback
// then throws, which ends the build, and destructors remove the incomplete files.
std::optional<data::BuildResult> build_unless_stopped(const data::Tokenizer& tokenizer,
                                                      const data::BuildOptions& options,
                                                      StatusLine& line,
                                                      const train::StopSignals& signals) {
  struct Stopped {};
  try {
    return data::build_dataset(tokenizer, options, [&](const data::BuildProgress& p) {
      if (signals.requested()) throw Stopped{};
      show_progress(line, p);
    });
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

int build(Args args) {
  std::string tokenizer_path, out, split = "none", format = "auto";
  data::BuildOptions options;
  int64_t threads = 0;
  bool no_end_of_text = false, json = false, force = false;
  Arguments arguments(
      "data build",
      "Tokenize text into PREFIX.bin and PREFIX.idx, which training reads. A plain "
      "text file is one document unless --split is given; .jsonl and .parquet files have one "
      "document per line; .gz and .zst are decompressed; '-' is standard input.",
      "tessera data build --tokenizer t.json --out corpus/train texts/ more.jsonl.zst");
  arguments.option(tokenizer_path, "--tokenizer", "T", "a tokenizer.json or SentencePiece model",
                   true);
  arguments.option(out, "--out", "PREFIX", "output: PREFIX.bin, PREFIX.idx, PREFIX.json", true);
  arguments.option(options.documents.key, "--key", "KEY", "JSON Lines: the key of the text");
  arguments.option(split, "--split", "HOW", "plain text: none | lines | paragraphs");
  arguments.option(format, "--format", "WHAT", "auto (by file name) | text | jsonl | parquet");
  arguments.option(threads, "--threads", "N", "threads; 0: all cores that this process may use");
  arguments.option(options.documents.skip_bad, "--skip-bad", "N",
                   "JSON Lines: skip at most N lines that are damaged or have no text");
  add_force(arguments, force);
  arguments.flag(options.documents.any_bytes, "--any-bytes",
                 "accept bytes that are not UTF-8, unchanged");
  arguments.flag(no_end_of_text, "--no-end-of-text", "no end-of-text token after each document");
  arguments.json(json);
  arguments.many(options.inputs, "FILE", "files, folders or '-'", 1);
  if (!arguments.parse(args)) return 0;
  options.documents.split = entry<data::Split>(split, "--split");
  options.documents.format = entry<data::TextFormat>(format, "--format");
  if (threads < 0 || threads > config::kMostThreads) {
    throw UsageError("--threads is {}, expected 0 to {}", threads, config::kMostThreads);
  }
  if (options.documents.skip_bad < 0)
    throw UsageError("--skip-bad is {}, expected 0 or more", options.documents.skip_bad);
  options.replace = force;
  options.out = out;
  options.tokenizer_name = tokenizer_path;
  options.end_of_text = !no_end_of_text;
  options.threads = threads > 0
                        ? static_cast<int>(threads)
                        : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto tokenizer = data::load_tokenizer(tokenizer_path);
  StatusLine line;
  const train::StopSignals signals;
  const std::optional<data::BuildResult> built =
      build_unless_stopped(*tokenizer, options, line, signals);
  if (!built) {
    fmt::print(stderr, "tessera: stopped by a signal: {} was not written\n", out);
    return 128 + signals.signal();
  }
  const data::BuildResult& result = *built;
  if (json)
    fmt::print("{}\n", to_json(as_tree(result, out, line.seconds())));
  else
    print_result(result, out, line.seconds());
  return 0;
}

// Statistics of a dataset, from one pass over it.
struct LengthsAndIds {
  int64_t empty = 0, shortest = 0, median = 0, longest = 0;
  int32_t largest_id = -1;
};

// Reads all lengths and all ids. The median is found with nth_element, in linear time.
LengthsAndIds look_through(const data::IndexedDataset& data) {
  LengthsAndIds l;
  std::vector<int32_t> lengths;
  lengths.reserve(data.sequences());
  for (int64_t s = 0; s < data.sequences(); ++s) {
    lengths.push_back(static_cast<int32_t>(data.length(s)));
    l.empty += data.length(s) == 0;
  }
  if (!lengths.empty()) {
    const auto middle = lengths.begin() + std::ssize(lengths) / 2;
    std::nth_element(lengths.begin(), middle, lengths.end());
    l.median = *middle;
    const auto [low, high] = std::minmax_element(lengths.begin(), lengths.end());
    l.shortest = *low;
    l.longest = *high;
  }
  // Reads in blocks, since a dataset may be larger than memory.
  std::vector<int32_t> ids(size_t{1} << 16);
  for (int64_t from = 0; from < data.tokens(); from += std::ssize(ids)) {
    ids.resize(std::min<size_t>(ids.size(), data.tokens() - from));
    data.read(from, ids);
    l.largest_id = std::max(l.largest_id, *std::max_element(ids.begin(), ids.end()));
  }
  return l;
}

// Prints the ids or the text of a document. A document is a range of sequences, which are
// contiguous in the .bin file, so its tokens are contiguous too.
void print_document(const data::IndexedDataset& data, int64_t document,
                    const std::string& tokenizer, bool json) {
  if (document < 0 || document >= data.documents()) {
    throw Error("{}: there is no document {}, expected 0 to {}", data.index_name(), document,
                data.documents() - 1);
  }
  const int64_t from = data.first_token(data.first_sequence(document));
  const int64_t to = data.first_token(data.first_sequence(document + 1));
  std::vector<int32_t> ids(to - from);
  data.read(from, ids);
  const std::string text = tokenizer.empty() ? "" : data::load_tokenizer(tokenizer)->decode(ids);
  if (json) {
    Tree list = Tree::list(), t;
    for (const int32_t id : ids) list.push(Tree(int64_t{id}));
    t.set("document", Tree(document));
    t.set("tokens", std::move(list));
    if (!tokenizer.empty()) t.set("text", Tree(text));
    fmt::print("{}\n", to_json(t));
  } else {
    fmt::print("{}\n", tokenizer.empty() ? fmt::format("{}", fmt::join(ids, " ")) : text);
  }
}

int inspect(Args args) {
  std::string prefix, tokenizer;
  int64_t document = -1;
  bool json = false;
  Arguments arguments("data inspect", "Check a dataset and print its statistics.",
                      "tessera data inspect corpus/train --document 3 --tokenizer t.json");
  arguments.required(prefix, "PREFIX", "the dataset PREFIX.bin and PREFIX.idx");
  arguments.option(document, "--document", "N", "print the ids or text of this document, from 0");
  arguments.option(tokenizer, "--tokenizer", "T", "a tokenizer.json, to print text");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  const data::IndexedDataset data(prefix);
  if (arguments.given("--document")) {
    print_document(data, document, tokenizer, json);
    return 0;
  }
  const LengthsAndIds l = look_through(data);
  const auto about = data::read_about(data);
  if (json) {
    Tree t = about ? summary(*about, prefix) : Tree();
    t.set("documents", Tree(data.documents()));
    t.set("sequences", Tree(data.sequences()));
    t.set("tokens", Tree(data.tokens()));
    t.set("type", Tree(std::string(name_of(data.dtype()))));
    t.set("empty_sequences", Tree(l.empty));
    t.set("shortest", Tree(l.shortest));
    t.set("median", Tree(l.median));
    t.set("longest", Tree(l.longest));
    t.set("largest_id", Tree(int64_t{l.largest_id}));
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  show("{}: {}, {} of type {}; index and data agree\n", prefix,
       counted(data.documents(), "document"), counted(data.tokens(), "token"),
       name_of(data.dtype()));
  fmt::print("  lengths     {} to {}, median {}; {} empty; {} sequences\n",
             format_count(l.shortest), format_count(l.longest), format_count(l.median),
             format_count(l.empty), format_count(data.sequences()));
  fmt::print("  largest id  {}\n", l.largest_id);
  if (!about) {
    fmt::print("  no {}.json: made by another program; the source of its text is unknown\n",
               prefix);
    return 0;
  }
  print_text(*about);
  show("  tokenizer   {} ({:016x})\n", about->tokenizer, about->tokenizer_fingerprint);
  constexpr size_t kShown = 10;
  for (const data::SourceInfo& s :
       std::span(about->sources).first(std::min(kShown, about->sources.size()))) {
    show("  from        {}: {}, {}\n", s.name, counted(s.documents, "document"),
         counted(s.tokens, "token"));
  }
  if (about->sources.size() > kShown) {
    fmt::print("              and {} more files\n", about->sources.size() - kShown);
  }
  return 0;
}

// Prints the examples of a file, one JSON object per line.
int rows(Args args) {
  std::string file;
  int64_t limit = 0;
  Arguments arguments("data rows",
                      "Print the rows of Parquet, or the lines of JSON Lines or one JSON list, as "
                      "training on instructions reads them.",
                      "tessera data rows chat.parquet --limit 3");
  arguments.required(file, "FILE", "Parquet, JSON Lines or one JSON list, or a folder of them");
  arguments.option(limit, "--limit", "N", "first N rows; 0: all");
  if (!arguments.parse(args)) return 0;
  if (limit < 0) throw UsageError("data rows --limit {}: expected 0 or more.", limit);
  data::ExampleStream stream({file});
  int64_t count = 0;
  for (data::JsonExample e; (limit == 0 || count < limit) && stream.next(e); ++count)
    fmt::print("{}\n", to_json(e.tree));
  return 0;
}

constexpr const char* kGroup = "Data";
const Verb kVerbs[] = {
    {"build", kGroup, "tokenize text into a dataset",
     "tessera data build --tokenizer t.json --out corpus/train book.txt", build},
    {"inspect", kGroup, "check a dataset and print its statistics",
     "tessera data inspect corpus/train", inspect},
    {"explain", kGroup, "show where a sample of a run comes from",
     "tessera data explain run.yaml --sample 1200", data_explain},
    {"render", kGroup, "print conversations as a chat template writes them",
     "tessera data render hf-folder chat.jsonl", data_render},
    {"rows", kGroup, "print the rows of Parquet or JSON files",
     "tessera data rows chat.parquet --limit 3", rows},
};

}  // namespace

int verb_data(Args args) { return run_verb("data", kVerbs, args); }

}  // namespace tessera::cli
