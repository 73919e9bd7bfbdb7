// tessera data explain RUN|PREFIX: shows the documents, and the bytes of them, that a sample comes
// from.
//
// The order of samples is a function of seed and epoch, not a stored list (data/samples.h). So
// the command rebuilds the state that training would have and queries the origin of one sample; no
// data before that sample is read. If the data of a run (datasets or their weights) have changed,
// the position in its checkpoint states the first sample of the current data, and earlier samples
// cannot be explained.
#include "cli/verbs.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "cli/arguments.h"
#include "cli/loss_marks.h"
#include "cli/row_tree.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "config/run_config.h"
#include "data/explain.h"
#include "data/parquet_file.h"
#include "data/source_list.h"
#include "data/tokenizer.h"
#include "data/training_data.h"
#include "train/load_run.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/run_position.h"
#include "train/run_programs.h"

namespace tessera::cli {
namespace {

// ---- Shows the rows of instruction data: which examples are packed in a row, and which tokens
// have a loss. TrainingRowReader, which training uses too, makes the rows, so they are shown as the
// model sees them, after the chat template, truncation and packing.

Tree as_tree(const data::Tokenizer& tokenizer, const data::InstructionData& data, int64_t example) {
  Tree t;
  t.set("place", Tree(data.place(example)));
  t.set("tokens", list_of(data.ids(example)));
  t.set("learned", list_of(data.learned(example)));
  t.set("text", Tree(tokenizer.decode(data.ids(example))));
  return t;
}

// Shows both texts of the pair of a sample.
Tree show_pair(const data::Tokenizer& tokenizer, train::TrainingRowReader& rows, int64_t sample,
               bool ids, bool json) {
  const data::PreferenceData& data = *rows.preferences();
  const int64_t pair = rows.pair_of(sample);
  Tree t, texts = Tree::list();
  t.set("sample", Tree(sample));
  t.set("place", Tree(data.place(pair)));
  if (!json) fmt::print("sample {}, {}\n", sample, printable(data.place(pair)));
  for (const int64_t answer : {0, 1}) {
    const auto tokens = data.ids(pair, answer);
    const auto learned = data.learned(pair, answer);
    Tree text;
    text.set("tokens", list_of(tokens));
    text.set("learned", list_of(learned));
    text.set("text", Tree(tokenizer.decode(tokens)));
    texts.push(std::move(text));
    if (json) continue;
    fmt::print("  {} text, {} tokens:\n{}\n{}", answer == 0 ? "first" : "second", tokens.size(),
               marked_text(tokenizer, tokens, learned), ids ? marked_ids(tokens, learned) : "");
  }
  t.set("texts", std::move(texts));
  return t;
}

Tree show_sample(const data::Tokenizer& tokenizer, train::TrainingRowReader& rows, int64_t sample,
                 bool ids, bool json) {
  if (rows.preferences() != nullptr) return show_pair(tokenizer, rows, sample, ids, json);
  const data::InstructionData& data = *rows.instructions();
  Tree t, examples = Tree::list();
  t.set("sample", Tree(sample));
  if (!json) fmt::print("sample {}\n", sample);
  for (const int32_t example : data.row_examples(sample)) {
    if (json)
      examples.push(as_tree(tokenizer, data, example));
    else
      fmt::print("  {}, {} tokens:\n{}\n{}", printable(data.place(example)),
                 data.ids(example).size(),
                 marked_text(tokenizer, data.ids(example), data.learned(example)),
                 ids ? marked_ids(data.ids(example), data.learned(example)) : "");
  }
  t.set("examples", std::move(examples));
  if (!json) return t;
  const Tree row = row_tree(rows, sample);
  for (const auto& [key, values] : *row.as_members()) t.set(key, values);
  return t;
}

// Prints the numbers of examples, rows and tokens, also of skipped ones, and the rows of a step or
// of one sample: the text of each example with the tokens that have a loss in brackets. Returns the
// exit code.
int explain_instructions(const config::RunConfig& run, std::optional<int64_t> step, int64_t sample,
                         bool ids, bool json) {
  const int64_t steps = run.schedule.steps;
  if (step && (*step < 1 || *step > steps))
    throw UsageError("--step is {}, expected 1 to {} (the last step)", *step, steps);
  if (sample < 0) throw UsageError("--sample is {}, expected 0 or more", sample);
  const auto tokenizer = data::load_tokenizer(train::tokenizer_of_run(run));
  train::TrainingRowReader rows(run, tokenizer->vocabulary_size(), *tokenizer);
  const data::BatchShape shape = config::batch_shape(run, 0);
  const int64_t first = step ? shape.samples_before(*step - 1) : sample;
  const int64_t end = step ? shape.samples_before(*step) : sample + 1;
  Tree t, samples = Tree::list();
  const data::InstructionCounts counts = rows.counts().value();
  t.set("data", data::to_tree(counts));
  if (!json) fmt::print("{}\n", data::describe(counts));
  for (const std::string& what : counts.warnings) fmt::print(stderr, "warning: {}\n", what);
  for (int64_t s = first; s < end; ++s) samples.push(show_sample(*tokenizer, rows, s, ids, json));
  t.set("samples", std::move(samples));
  if (json) fmt::print("{}\n", to_json(t));
  return 0;
}

// The explained data: those of a run, or a single dataset.
struct Subject {
  std::string name, tokenizer;
  data::DatasetSpec spec;
  data::BatchShape batch = {};
  int64_t steps = 0;  // 0: the subject has no steps
  bool changes = false;
  std::optional<train::RunPosition> position = {};  // position at which `train` would resume
  std::string checkpoint = {};                      // the checkpoint that stores the position
};

// Sets the position at which `tessera train` with this configuration would resume, if any.
void find_position(const config::RunConfig& run, Subject& subject) {
  const train::StartingPoint start = train::find_start(run);
  if (start.candidates.empty() || start.load != config::Load::kAll) return;
  const checkpoint::CheckpointReader reader(start.candidates.front());
  subject.checkpoint = start.candidates.front().string();
  subject.position = train::position_of(reader.header(), subject.checkpoint,
                                        *data::load_tokenizer(train::tokenizer_of_run(run)));
}

Subject subject_of(const std::string& prefix, int64_t sequence_length, int64_t seed) {
  const auto about = data::read_about(data::IndexedDataset(prefix));
  return {prefix,
          about ? about->tokenizer : "",
          {.datasets = {{prefix, 1}},
           .split = "",
           .part = 0,
           .sequence_length = sequence_length,
           .seed = static_cast<uint64_t>(seed),
           .vocabulary = 0}};
}

Subject subject_of(const std::string& name, const config::RunConfig& run) {
  const std::string tokenizer = train::tokenizer_of_run(run).string();
  data::DatasetSpec spec =
      run.data.objective == config::Objective::kNextToken
          ? train::training_spec(run, run.model.vocabulary)
          : train::training_spec(run, run.model.vocabulary, *data::load_tokenizer(tokenizer));
  Subject subject{name,
                  tokenizer,
                  std::move(spec),
                  config::batch_shape(run, 0),
                  run.schedule.steps,
                  run.checkpoint.allow_changes};
  find_position(run, subject);
  return subject;
}

// Opens the data of the subject at its position, and updates the batch shape of the subject from
// the data.
data::TrainingData open_data(Subject& subject) {
  data::TrainingData data(subject.spec);
  subject.batch = train::with_row_lengths(std::move(subject.batch), data);
  if (!subject.position) return data;
  data.continue_from(subject.position->data, subject.changes);
  subject.batch = train::resumed(subject.batch, *subject.position);
  return data;
}

// Throws Error for a sample before a change of the run's data: a run stores only its position after
// the change, so earlier samples cannot be explained.
void require_known(const data::TrainingData& data, const Subject& subject, int64_t sample) {
  if (sample >= data.first_sample()) return;
  throw Error(
      "{}: sample {} was read before the data of the run changed at its sample {}. {} stores "
      "only the position after that change.",
      subject.name, sample, data.first_sample(), subject.checkpoint);
}

Tree tokens_of(data::TrainingData& data, int64_t sample) {
  std::vector<int32_t> ids(data.sample_tokens());
  data.read(sample, ids);
  return list_of(ids);
}

// Prints the samples of a step: a contiguous range, which follows the samples of all earlier steps.
void explain_step(data::TrainingData& data, const Subject& subject, int64_t step, bool json) {
  if (subject.steps == 0) throw UsageError("--step needs a run file; a dataset has no steps");
  if (step < 1 || step > subject.steps)
    throw UsageError("--step is {}, expected 1 to {} (the last step)", step, subject.steps);
  Tree list = Tree::list();
  const int64_t end = subject.batch.samples_before(step);
  require_known(data, subject, subject.batch.samples_before(step - 1));
  for (int64_t s = subject.batch.samples_before(step - 1); s < end; ++s) {
    const data::SampleOrigin origin = data.origin(s);
    const std::string& prefix = data.prefix(origin.dataset);
    if (json) {
      Tree one;
      one.set("sample", Tree(s));
      one.set("dataset", Tree(prefix));
      one.set("tokens", tokens_of(data, s));
      if (data.row_source() > 0) {  // the sample after span corruption
        const Tree row = row_tree(data, s);
        for (const char* key : {"encoder", "labels"}) one.set(key, *row.find(key));
      }
      list.push(std::move(one));
    } else {
      show("step {} sample {}: {} sample {} (epoch {}), {} pieces from document {}\n", step, s,
           prefix, origin.index, origin.epoch, origin.pieces.size(),
           origin.pieces.front().sequence);
    }
  }
  if (!json) return;
  Tree t;
  t.set("step", Tree(step));
  if (!subject.checkpoint.empty()) t.set("checkpoint", Tree(subject.checkpoint));
  t.set("samples", std::move(list));
  fmt::print("{}\n", to_json(t));
}

Tree tree_of(const data::PieceOrigin& o) {
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

// Returns the beginning and the end of a text on one line. Cuts are aligned to UTF-8 characters:
// bytes 10xxxxxx continue a character.
std::string excerpt(const std::string& text) {
  constexpr size_t kSide = 40;
  std::string s = text;
  if (text.size() > 2 * kSide + 3) {
    size_t front = kSide, back = text.size() - kSide;
    const auto inside = [&](size_t i) { return (text[i] & 0xC0) == 0x80; };
    while (front > 0 && inside(front)) --front;
    while (back < text.size() && inside(back)) ++back;
    s = text.substr(0, front) + " … " + text.substr(back);
  }
  for (char& c : s) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return s;
}

void print_piece(const data::PieceOrigin& o, bool with_text) {
  std::string from;
  if (o.source_document >= 0) {
    from = o.line > 0 ? fmt::format(", {}:{} (byte {})", o.source, o.line, o.offset)
                      : fmt::format(", document {} of {}", o.source_document, o.source);
  }
  show("  document {}{}: tokens {} to {} of {}", o.document, from, o.piece.from,
       o.piece.from + o.piece.count, o.document_tokens);
  if (with_text) show(", bytes {} to {}\n    “{}”", o.text_from, o.text_to, excerpt(o.text));
  show("\n");
}

void explain_sample(data::TrainingData& data, const Subject& subject, int64_t sample, bool locate,
                    bool json) {
  // A dataset has no last sample, since epochs repeat; the limit only detects typos.
  constexpr int64_t kMany = int64_t{1} << 32;
  const int64_t samples = subject.steps > 0 ? subject.batch.samples_before(subject.steps) : kMany;
  if (sample < 0 || sample >= samples)
    throw UsageError("--sample is {}, expected 0 to {}{}", sample, samples - 1,
                     subject.steps > 0 ? " (the last sample)" : "");
  require_known(data, subject, sample);
  const data::SampleOrigin origin = data.origin(sample);
  const std::string& prefix = data.prefix(origin.dataset);
  const auto tokenizer = subject.tokenizer.empty() || !std::filesystem::exists(subject.tokenizer)
                             ? nullptr
                             : data::load_tokenizer(subject.tokenizer);
  const auto pieces =
      data::explain(data.dataset(origin.dataset), origin.pieces,
                    data::read_about(data.dataset(origin.dataset)), tokenizer.get(), locate);
  if (json) {
    Tree list = Tree::list(), t;
    for (const data::PieceOrigin& o : pieces) list.push(tree_of(o));
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
  show("sample {} of {}{}: sample {} of {}, in its epoch {}\n", sample, subject.name, step,
       origin.index, prefix, origin.epoch);
  for (const data::PieceOrigin& o : pieces) print_piece(o, tokenizer != nullptr);
  if (tokenizer == nullptr) show("  (use --tokenizer to see the text)\n");
}

// Throws Error for a file of examples, which is neither a run file nor a dataset. A run file may be
// in JSON, but it is not a list.
void refuse_examples(const std::string& name) {
  if (!std::filesystem::is_regular_file(name)) return;
  const std::string_view plain = data::without_compression(name);
  if (!data::named_json_lines(name) && !data::named_parquet(name)) return;
  if (plain.ends_with(".json") && plain == name && !read_file(name).starts_with('[')) return;
  throw Error(
      "{0}: is a file of examples, expected a run file, a run directory or a dataset. `tessera "
      "data "
      "render TEMPLATE {0} --tokenizer T` shows its conversations with the learned tokens marked; "
      "`tessera data explain RUN data.instructions=[{0}]` shows them as a run reads them",
      name);
}

}  // namespace

int data_explain(Args args) {
  std::string name, tokenizer;
  std::vector<std::string> overrides;
  int64_t sample = 0, step = 0, sequence_length = 2048, seed = 1234;
  bool locate = false, ids = false, json = false;
  Arguments arguments("data explain",
                      "Show where a sample comes from: the documents and their bytes.",
                      "tessera data explain run.yaml --sample 1200 --locate");
  arguments.required(name, "RUN|PREFIX", "a run file, a run directory or a dataset");
  arguments.option(sample, "--sample", "N", "sample number from 0, counted over all steps");
  arguments.option(step, "--step", "S", "all samples of this step, from 1");
  arguments.option(tokenizer, "--tokenizer", "T", "tokenizer for the text; default: the data's");
  arguments.flag(locate, "--locate", "reread the source files to find line and byte");
  arguments.flag(ids, "--ids", "also print the token ids of instruction data");
  arguments.option(sequence_length, "--sequence-length", "T", "for PREFIX: tokens per sample");
  arguments.option(seed, "--seed", "N", "for PREFIX: seed of the sample order");
  arguments.json(json);
  arguments.many(overrides, "key=value", "overrides of run-file keys");
  if (!arguments.parse(args)) return 0;
  if (sequence_length < 1)
    throw UsageError("--sequence-length is {}, expected 1 or more", sequence_length);
  Subject subject;
  if (std::filesystem::exists(name + ".idx")) {
    if (!overrides.empty()) throw UsageError("{}: key=value needs a run file", overrides[0]);
    subject = subject_of(name, sequence_length, seed);
  } else {
    refuse_examples(name);
    const config::RunConfig run = open_run(name, overrides);
    if (!run.data.instructions.empty())
      return explain_instructions(
          run, arguments.given("--step") ? std::optional<int64_t>(step) : std::nullopt, sample, ids,
          json);
    subject = subject_of(name, run);
  }
  if (!tokenizer.empty()) subject.tokenizer = tokenizer;
  data::TrainingData data = open_data(subject);
  if (!subject.checkpoint.empty() && !json)
    show("position from {}: {} samples consumed after step {}\n", subject.checkpoint,
         format_count(subject.position->data.samples), format_count(subject.position->step));
  if (arguments.given("--step")) {
    explain_step(data, subject, step, json);
  } else {
    explain_sample(data, subject, sample, locate, json);
  }
  return 0;
}

}  // namespace tessera::cli
