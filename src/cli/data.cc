// tessera data build | inspect PREFIX | explain RUN|PREFIX
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/config.h"
#include "cli/build_line.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "data/dataset_builder.h"
#include "data/explain.h"
#include "data/training_data.h"
#include "train/progress.h"
#include "train/run_data.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

template <class E>
E entry(const std::string& text, const char* option) {
  const std::string names = enum_names(E{});
  for (size_t from = 0, i = 0; from <= names.size(); ++i) {
    const size_t to = std::min(names.find('|', from), names.size());
    if (names.substr(from, to - from) == text) return static_cast<E>(i);
    from = to + 1;
  }
  throw UsageError("{} is '{}', wanted {}", option, text, names);
}

Tree summary(const DatasetAbout& about, const std::string& prefix) {
  Tree t;
  t.set("prefix", Tree(prefix));
  t.set("documents", Tree(about.documents));
  t.set("tokens", Tree(about.tokens));
  t.set("text_bytes", Tree(about.text_bytes));
  t.set("bytes_per_token", Tree(share(about.text_bytes, about.tokens)));
  t.set("invalid_bytes", Tree(about.invalid_bytes));
  t.set("first_invalid", Tree(about.first_invalid));
  t.set("type", Tree(std::string(name_of(dtype_for_vocabulary(about.vocabulary)))));
  return t;
}

void print_text(const DatasetAbout& about) {
  fmt::print("  text        {}, {:.2f} bytes per token\n", human_bytes(about.text_bytes),
             share(about.text_bytes, about.tokens));
  if (about.invalid_bytes > 0) {
    show("  not UTF-8   {} bytes, kept as they are; the first: {}\n",
         format_count(about.invalid_bytes), about.first_invalid);
  }
}

void print_counts(const DatasetAbout& about) {
  const auto ids = name_of(dtype_for_vocabulary(about.vocabulary));
  fmt::print("  documents   {}\n", format_count(about.documents));
  fmt::print("  tokens      {} ({}, vocabulary {}{})\n", format_count(about.tokens), ids,
             format_count(about.vocabulary),
             about.end_of_text ? fmt::format(", end of text {}", *about.end_of_text)
                               : std::string(", no end of text"));
}

// What of the inputs was left out, or is probably not meant to be read as it was.
void print_sources(const BuildResult& result) {
  if (result.skipped_files > 0) {
    const bool more = result.skipped_files > std::ssize(result.left_out);
    show("  left out    {} files in folders whose names are not those of text: {}{}\n",
         format_count(result.skipped_files), fmt::join(result.left_out, ", "), more ? ", …" : "");
  }
  for (const std::string& table : result.tables)
    show(
        "  warning     {} is read as plain text, with its header and separators. To train on one\n"
        "              column, convert it to JSON lines and name the column with --key.\n",
        table);
}

int build(Args args) {
  std::string tokenizer_path, out, split = "none", format = "auto";
  BuildOptions options;
  int64_t threads = 0;
  bool no_end_of_text = false, json = false;
  Arguments arguments(
      "data build",
      "Turns text into PREFIX.bin and PREFIX.idx, which training reads. A plain "
      "text file is one document unless --split says otherwise; .jsonl files hold "
      "one a line; .gz and .zst are unpacked; '-' is standard input.",
      "tessera data build --tokenizer t.json --out corpus/train texts/ more.jsonl.zst");
  arguments.option(tokenizer_path, "--tokenizer", "T", "a tokenizer.json or SentencePiece model",
                   true);
  arguments.option(out, "--out", "PREFIX", "where to: PREFIX.bin, PREFIX.idx, PREFIX.json", true);
  arguments.option(options.documents.key, "--key", "KEY",
                   "JSON lines: the key that holds the text");
  arguments.option(split, "--split", "HOW", "plain text: none | lines | paragraphs");
  arguments.option(format, "--format", "WHAT", "auto (by name) | text | jsonl");
  arguments.option(threads, "--threads", "N", "0: all cores that this process may use");
  arguments.flag(options.documents.any_bytes, "--any-bytes",
                 "read files that are not UTF-8 text as they are");
  arguments.flag(no_end_of_text, "--no-end-of-text", "no token behind each document");
  arguments.json(json);
  arguments.many(options.inputs, "FILE", "files, folders or '-'", 1);
  if (!arguments.parse(args)) return 0;
  options.documents.split = entry<Split>(split, "--split");
  options.documents.format = entry<TextFormat>(format, "--format");
  if (threads < 0 || threads > kMostThreads) {
    throw UsageError("--threads is {}, wanted 0 to {}", threads, kMostThreads);
  }
  options.out = out;
  options.tokenizer_name = tokenizer_path;
  options.end_of_text = !no_end_of_text;
  options.threads = threads > 0
                        ? static_cast<int>(threads)
                        : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto tokenizer = load_tokenizer(tokenizer_path);
  BuildLine line;
  const BuildResult result =
      build_dataset(*tokenizer, options, [&](const BuildProgress& p) { line.show(p); });
  if (json) {
    Tree t = summary(result.about, out);
    t.set("skipped_files", Tree(result.skipped_files));
    t.set("left_out", write_value(result.left_out));
    t.set("tables", write_value(result.tables));
    t.set("seconds", Tree(line.seconds()));
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  show("{}.bin, .idx and .json written in {}\n", out, format_duration(line.seconds()));
  print_counts(result.about);
  print_text(result.about);
  print_sources(result);
  return 0;
}

struct LengthsAndIds {
  int64_t empty = 0, shortest = 0, median = 0, longest = 0;
  int32_t largest_id = -1;
};

LengthsAndIds look_through(const IndexedDataset& data) {
  LengthsAndIds l;
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(data.sequences()));
  for (int64_t s = 0; s < data.sequences(); ++s) {
    lengths.push_back(static_cast<int32_t>(data.length(s)));
    l.empty += data.length(s) == 0;
  }
  if (!lengths.empty()) {
    const auto middle = lengths.begin() + static_cast<int64_t>(lengths.size()) / 2;
    std::nth_element(lengths.begin(), middle, lengths.end());
    l.median = *middle;
    const auto [low, high] = std::minmax_element(lengths.begin(), lengths.end());
    l.shortest = *low;
    l.longest = *high;
  }
  std::vector<int32_t> ids(size_t{1} << 16);
  for (int64_t from = 0; from < data.tokens(); from += static_cast<int64_t>(ids.size())) {
    ids.resize(std::min(ids.size(), static_cast<size_t>(data.tokens() - from)));
    data.read(from, ids);
    l.largest_id = std::max(l.largest_id, *std::max_element(ids.begin(), ids.end()));
  }
  return l;
}

void print_document(const IndexedDataset& data, int64_t document, const std::string& tokenizer,
                    bool json) {
  if (document < 0 || document >= data.documents()) {
    throw Error("{}: there is no document {}; they are 0 to {}", data.index_name(), document,
                data.documents() - 1);
  }
  const int64_t from = data.first_token(data.first_sequence(document));
  const int64_t to = data.first_token(data.first_sequence(document + 1));
  std::vector<int32_t> ids(static_cast<size_t>(to - from));
  data.read(from, ids);
  const std::string text = tokenizer.empty() ? "" : load_tokenizer(tokenizer)->decode(ids);
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
  Arguments arguments("data inspect", "Checks a dataset and says what is in it.",
                      "tessera data inspect corpus/train --document 3 --tokenizer t.json");
  arguments.required(prefix, "PREFIX", "of PREFIX.bin and PREFIX.idx");
  arguments.option(document, "--document", "N", "print this one, from 0: its ids, or its text");
  arguments.option(tokenizer, "--tokenizer", "T", "a tokenizer.json, to print text");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  const IndexedDataset data(prefix);
  if (arguments.given("--document")) {
    print_document(data, document, tokenizer, json);
    return 0;
  }
  const LengthsAndIds l = look_through(data);
  const auto about = read_about(data);
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
  show("{}: {} documents, {} tokens of type {}; index and data agree\n", prefix,
       format_count(data.documents()), format_count(data.tokens()), name_of(data.dtype()));
  fmt::print("  lengths     {} to {}, median {}; {} empty; {} sequences\n",
             format_count(l.shortest), format_count(l.longest), format_count(l.median),
             format_count(l.empty), format_count(data.sequences()));
  fmt::print("  largest id  {}\n", l.largest_id);
  if (!about) {
    fmt::print("  no {}.json: made by another program; where its text came from is not known\n",
               prefix);
    return 0;
  }
  print_text(*about);
  show("  tokenizer   {} ({:016x})\n", about->tokenizer, about->tokenizer_fingerprint);
  constexpr size_t kShown = 10;
  for (const SourceAbout& s :
       std::span(about->sources).first(std::min(kShown, about->sources.size()))) {
    show("  from        {}: {} documents, {} tokens\n", s.name, format_count(s.documents),
         format_count(s.tokens));
  }
  if (about->sources.size() > kShown) {
    fmt::print("              and {} files more\n", about->sources.size() - kShown);
  }
  return 0;
}

// What `explain` speaks about: the data of a run, or one dataset by itself.
struct Subject {
  std::string name, tokenizer;
  DatasetSpec spec;
  BatchShape batch = {};
  int64_t steps = 0;  // 0: there are no steps
};

Subject subject_of(const std::string& name, std::span<const std::string> overrides,
                   int64_t sequence_length, int64_t seed) {
  if (std::filesystem::exists(name + ".idx")) {
    if (!overrides.empty()) throw UsageError("{}: key=value needs a run file", overrides[0]);
    const auto about = read_about(IndexedDataset(name));
    return {name,
            about ? about->tokenizer : "",
            {.datasets = {{name, 1}},
             .split = "",
             .part = 0,
             .sequence_length = sequence_length,
             .seed = static_cast<uint64_t>(seed),
             .vocabulary = 0}};
  }
  const bool folder = std::filesystem::is_directory(name);
  const RunConfig run = open_run(folder ? name + "/run.yaml" : name, overrides);
  if (!run.data.instructions.empty()) {
    throw Error("{}: the run trains on data.instructions; explain is for data.train", name);
  }
  DatasetSpec spec =
      run.data.objective == Objective::kNextToken
          ? training_spec(run, run.model.vocabulary)
          : training_spec(run, run.model.vocabulary, *load_tokenizer(run.data.tokenizer));
  return {name, run.data.tokenizer, std::move(spec), batch_shape(run, 0), run.schedule.steps};
}

Tree list_of(std::span<const int32_t> ids) {
  Tree list = Tree::list();
  for (const int32_t id : ids) list.push(Tree(int64_t{id}));
  return list;
}

Tree tokens_of(TrainingData& data, int64_t sample) {
  std::vector<int32_t> ids(static_cast<size_t>(data.sample_tokens()));
  data.read(sample, ids);
  return list_of(ids);
}

// What span corruption makes of a sample.
void add_row(TrainingData& data, int64_t sample, Tree& out) {
  const auto t = static_cast<size_t>(data.row_tokens());
  std::vector<int32_t> tokens(t), labels(t), positions(t), documents(t),
      source(static_cast<size_t>(data.row_source()));
  data.read_row(sample, {tokens, labels, positions, documents, source});
  out.set("encoder", list_of(source));
  out.set("labels", list_of(labels));
}

void explain_step(TrainingData& data, const Subject& subject, int64_t step, bool json) {
  if (subject.steps == 0) throw UsageError("--step needs a run file; a dataset has no steps");
  if (step < 1 || step > subject.steps)
    throw UsageError("--step is {}, wanted 1 to {}, the run's last", step, subject.steps);
  Tree list = Tree::list();
  const int64_t end = subject.batch.samples_before(step);
  for (int64_t s = subject.batch.samples_before(step - 1); s < end; ++s) {
    const SampleOrigin origin = data.origin(s);
    const std::string& prefix = data.prefix(origin.dataset);
    if (json) {
      Tree one;
      one.set("sample", Tree(s));
      one.set("dataset", Tree(prefix));
      one.set("tokens", tokens_of(data, s));
      if (data.row_source() > 0) add_row(data, s, one);
      list.push(std::move(one));
    } else {
      fmt::print("step {} sample {}: {} sample {} (epoch {}), {} pieces from document {}\n", step,
                 s, prefix, origin.index, origin.epoch, origin.pieces.size(),
                 origin.pieces.front().sequence);
    }
  }
  if (!json) return;
  Tree t;
  t.set("step", Tree(step));
  t.set("samples", std::move(list));
  fmt::print("{}\n", to_json(t));
}

Tree tree_of(const PieceOrigin& o) {
  Tree t;
  t.set("document", Tree(o.document));
  t.set("tokens_from", Tree(o.piece.from));
  t.set("tokens_to", Tree(o.piece.from + o.piece.count));
  t.set("document_tokens", Tree(o.document_tokens));
  t.set("bytes_from", Tree(o.text_from));
  t.set("bytes_to", Tree(o.text_to));
  t.set("text", Tree(o.text));
  if (o.source_document < 0) return t;
  t.set("source", Tree(o.source));
  t.set("source_document", Tree(o.source_document));
  if (o.line > 0) {
    t.set("line", Tree(o.line));
    t.set("offset", Tree(o.offset));
  }
  return t;
}

// The beginning and the end of a text on one line.
std::string excerpt(const std::string& text) {
  constexpr size_t kSide = 40;
  std::string s = text;
  if (text.size() > 2 * kSide + 3) {
    size_t front = kSide, back = text.size() - kSide;
    const auto inside = [&](size_t i) {
      return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
    };
    while (front > 0 && inside(front)) --front;
    while (back < text.size() && inside(back)) ++back;
    s = text.substr(0, front) + " … " + text.substr(back);
  }
  for (char& c : s) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return s;
}

void print_piece(const PieceOrigin& o, bool with_text) {
  std::string from;
  if (o.source_document >= 0) {
    from = o.line > 0 ? fmt::format(", {}:{} (byte {})", o.source, o.line, o.offset)
                      : fmt::format(", document {} of {}", o.source_document, o.source);
  }
  show("  document {}{}: tokens {} to {} of {}", o.document, from, o.piece.from,
       o.piece.from + o.piece.count, o.document_tokens);
  if (with_text) fmt::print(", bytes {} to {}\n    “{}”", o.text_from, o.text_to, excerpt(o.text));
  fmt::print("\n");
}

void explain_sample(TrainingData& data, const Subject& subject, int64_t sample, bool locate,
                    bool json) {
  constexpr int64_t kMany = int64_t{1} << 32;
  const int64_t samples = subject.steps > 0 ? subject.batch.samples_before(subject.steps) : kMany;
  if (sample < 0 || sample >= samples)
    throw UsageError("--sample is {}, wanted 0 to {}{}", sample, samples - 1,
                     subject.steps > 0 ? ", the run's last" : "");
  const SampleOrigin origin = data.origin(sample);
  const std::string& prefix = data.prefix(origin.dataset);
  const auto tokenizer = subject.tokenizer.empty() || !std::filesystem::exists(subject.tokenizer)
                             ? nullptr
                             : load_tokenizer(subject.tokenizer);
  const auto pieces = explain(data.dataset(origin.dataset), origin.pieces,
                              read_about(data.dataset(origin.dataset)), tokenizer.get(), locate);
  if (json) {
    Tree list = Tree::list(), t;
    for (const PieceOrigin& o : pieces) list.push(tree_of(o));
    t.set("sample", Tree(sample));
    if (subject.steps > 0) t.set("step", Tree(subject.batch.step_of(sample) + 1));
    t.set("dataset", Tree(prefix));
    t.set("dataset_sample", Tree(origin.index));
    t.set("epoch", Tree(origin.epoch));
    t.set("tokens", tokens_of(data, sample));
    t.set("pieces", std::move(list));
    fmt::print("{}\n", to_json(t));
    return;
  }
  const std::string step =
      subject.steps > 0 ? fmt::format(", read in step {}", subject.batch.step_of(sample) + 1) : "";
  fmt::print("sample {} of {}{}: sample {} of {}, in its epoch {}\n", sample, subject.name, step,
             origin.index, prefix, origin.epoch);
  for (const PieceOrigin& o : pieces) print_piece(o, tokenizer != nullptr);
  if (tokenizer == nullptr) fmt::print("  (its text: give --tokenizer)\n");
}

int explain_verb(Args args) {
  std::string name, tokenizer;
  std::vector<std::string> overrides;
  int64_t sample = 0, step = 0, sequence_length = 2048, seed = 1234;
  bool locate = false, json = false;
  Arguments arguments("data explain",
                      "Says where a sample comes from: which documents, which of their bytes.",
                      "tessera data explain run.yaml --sample 1200 --locate");
  arguments.required(name, "RUN|PREFIX", "a run file, a run directory or a dataset");
  arguments.option(sample, "--sample", "N", "which one, from 0, through all steps");
  arguments.option(step, "--step", "S", "all samples of this step, from 1");
  arguments.option(tokenizer, "--tokenizer", "T", "to show text; default: the one of the data");
  arguments.flag(locate, "--locate", "read the source files again to name line and byte");
  arguments.option(sequence_length, "--sequence-length", "T", "of a dataset's samples");
  arguments.option(seed, "--seed", "N", "of a dataset's order");
  arguments.json(json);
  arguments.many(overrides, "key=value", "keys of the run file given again");
  if (!arguments.parse(args)) return 0;
  if (sequence_length < 1)
    throw UsageError("--sequence-length is {}, wanted 1 or more", sequence_length);
  Subject subject = subject_of(name, overrides, sequence_length, seed);
  if (!tokenizer.empty()) subject.tokenizer = tokenizer;
  TrainingData data(subject.spec);
  if (arguments.given("--step")) {
    explain_step(data, subject, step, json);
  } else {
    explain_sample(data, subject, sample, locate, json);
  }
  return 0;
}

constexpr const char* kGroup = "Data";
const Verb kVerbs[] = {
    {"build", kGroup, "text to token files",
     "tessera data build --tokenizer t.json --out corpus/train book.txt", build},
    {"inspect", kGroup, "check a dataset and say what is in it",
     "tessera data inspect corpus/train", inspect},
    {"explain", kGroup, "where a sample of a run came from",
     "tessera data explain run.yaml --sample 1200", explain_verb},
};

}  // namespace

int verb_data(Args args) { return run_verb("data", kVerbs, args); }

}  // namespace tessera
