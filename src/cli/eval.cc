// tessera eval CHECKPOINT: computes the perplexity on datasets, the results of tasks, or raw
// logits.
//
// The loss on a dataset is the mean of -ln p over tokens; perplexity is its exponential. Both
// depend on the tokenizer, so bits per byte (total loss / ln 2 / bytes of text) are printed too,
// which can be compared between models with different vocabularies. Samples have the length of the
// training run and, for an encoder-decoder model, the span corruption of its validation, so that
// the loss can be compared with the validation loss in the log of the run.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/tree.h"
#include "base/utf8.h"
#include "checkpoint/safetensors.h"
#include "cli/arguments.h"
#include "cli/checkpoint_file.h"
#include "cli/rank.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "data/dataset_about.h"
#include "data/source_list.h"
#include "data/tokenizer_json.h"
#include "data/vocabulary.h"
#include "eval/evaluate.h"

namespace tessera::cli {
namespace {

constexpr int64_t kMostTokenFileBytes = int64_t{4} << 30;

// Reads a JSON file [[id, …], …] whose rows have equal lengths. Returns all ids in a row-major
// array, and sets `sequences` to the number of rows.
std::vector<int32_t> read_ids(const std::string& file, int64_t& sequences) {
  const Tree tree = parse_json(read_pipe_or_file(file, kMostTokenFileBytes), file);
  const Tree::List* rows = tree.as_list();
  std::vector<int32_t> ids;
  sequences = rows == nullptr ? 0 : std::ssize(*rows);
  for (int64_t r = 0; r < sequences; ++r) {
    const Tree& row = (*rows)[r];
    const auto before = std::ssize(ids);
    const Tree::List* list = row.as_list();
    for (const Tree& id : list != nullptr ? *list : Tree::List{row}) {
      const auto* n = std::get_if<int64_t>(&id.value);
      if (n == nullptr || *n < 0 || *n > data::kLargestTokenId)
        throw Error("{}:{}:{}: found {}, expected a token id in [[id, …], …]", file, id.line,
                    id.column, to_json(id));
      ids.push_back(static_cast<int32_t>(*n));
    }
    // Row r has the length of the first row if and only if the r rows before it have r times its
    // length.
    if (list == nullptr || (r > 0 && (std::ssize(ids) - before) * r != before))
      throw Error("{}:{}:{}: expected rows of token ids of equal length.", file, row.line,
                  row.column);
  }
  if (ids.empty()) throw Error("{}: found no token ids, expected [[id, …], …].", file);
  return ids;
}

void write_logits(const std::string& file, std::span<const float> logits, int64_t sequences,
                  int64_t length) {
  const auto vocabulary = std::ssize(logits) / (sequences * length);
  const checkpoint::SafetensorsPlan plan[] = {
      {"logits", DType::kF32, {sequences, length, vocabulary}}};
  checkpoint::write_safetensors(file, plan, [&](size_t) -> checkpoint::FillPiece {
    return [&](int64_t first, int64_t count, std::byte* out) {
      std::memcpy(out, logits.data() + first, count * sizeof(float));
    };
  });
}

void save_logits(checkpoint::CheckpointReader& reader, const std::string& logits_file,
                 const std::string& tokens_file, const std::string& source_file,
                 const eval::ModelOptions& options) {
  int64_t sequences = 0;
  const std::vector<int32_t> ids = read_ids(tokens_file, sequences);
  int64_t rows = sequences;
  const std::vector<int32_t> source =
      source_file.empty() ? std::vector<int32_t>() : read_ids(source_file, rows);
  if (rows != sequences)
    throw Error("{} has {} rows, {} has {}: expected equal numbers of rows.", source_file, rows,
                tokens_file, sequences);
  const int64_t each = std::ssize(ids) / sequences;
  eval::LogitsModel m(reader, sequences, each, options, std::ssize(source) / sequences);
  write_logits(logits_file, m.read(ids, source), sequences, each);
}

Tree as_tree(const std::string& set, const eval::Score& s) {
  Tree t;
  t.set("data", Tree(set));
  t.set("tokens", Tree(static_cast<int64_t>(s.tokens)));
  t.set("loss", Tree(s.loss()));
  t.set("perplexity", Tree(std::exp(s.loss())));
  t.set("bits_per_byte", Tree(s.bits_per_byte()));
  return t;
}

Tree as_tree(const eval::ExampleScore& s) {
  Tree log = Tree::list(), t;
  for (const double x : s.log) log.push(Tree(x));
  t.set("line", Tree(s.line));
  if (!s.log.empty()) t.set("log_likelihood", std::move(log));
  if (s.log.empty()) t.set("written", Tree(s.written));
  if (s.log.empty()) t.set("answer", Tree(s.extracted));
  return t;
}

// Prints the results of one task as a line unless `quiet`, and returns them as a tree.
Tree show_task(const std::string& name, const eval::TaskResult& r, bool quiet) {
  Tree t, metrics = Tree::object();
  std::string line = fmt::format("{:<20}", name);
  for (const eval::Metric& m : r.metrics) {
    Tree one;
    one.set("value", Tree(m.value));
    one.set("standard_error", Tree(m.error));
    metrics.set(m.name, std::move(one));
    line += fmt::format("  {} {:.4f} ± {:.4f}", m.name, m.value, m.error);
  }
  if (!quiet) fmt::print("{}  {}\n", line, counted(std::ssize(r.examples), "example"));
  t.set("task", Tree(name));
  t.set("examples", Tree(std::ssize(r.examples)));
  t.set("metrics", std::move(metrics));
  return t;
}

// Sets `value` to the number or flag `section.key` of the run's configuration, if it exists. The
// configuration in a checkpoint is read as a tree, not as a RunConfig, because another version of
// the program may have written it, with keys that do not exist in this version.
template <class T>
void take_value(const Tree& config, const char* section, const char* key, T& value) {
  const Tree* const of = config.as_members() != nullptr ? config.find(section) : nullptr;
  const Tree* const found = of != nullptr && of->as_members() != nullptr ? of->find(key) : nullptr;
  if (found == nullptr) return;
  if (const auto* whole = std::get_if<int64_t>(&found->value)) value = static_cast<T>(*whole);
  if (const auto* real = std::get_if<double>(&found->value)) value = static_cast<T>(*real);
  if (const auto* flag = std::get_if<bool>(&found->value)) value = static_cast<T>(*flag);
}

// Sets the span corruption to that of the run's validation.
void corrupt_as_trained(const Tree& config, const data::Tokenizer& tokenizer,
                        data::DatasetSpec& spec) {
  spec.spans = data::span_objective(tokenizer);
  take_value(config, "run", "seed", spec.seed);
  take_value(config, "data", "noise_density", spec.spans->how.noise_density);
  take_value(config, "data", "mean_span", spec.spans->how.mean_span);
}

// Returns the sample length of the training run, or the model's context if the header does not
// contain the length (an imported model) or contains a larger one.
int64_t trained_length(const checkpoint::CheckpointReader& reader,
                       const model::ModelConfig& model) {
  int64_t length = 0;
  take_value(reader.header().config, "data", "sequence_length", length);
  return length > 0 ? std::min(length, model.context) : model.context;
}

struct SetOptions {
  int64_t length = 0;    // tokens per sample; 0: as in training
  int64_t samples = 0;   // samples per dataset; 0: all
  bool foreign = false;  // accept datasets of another tokenizer
};

// Throws Error for a text file, which is not the PREFIX of a dataset.
void require_dataset(const std::string& set) {
  if (std::filesystem::exists(set + ".idx") || !std::filesystem::is_regular_file(set)) return;
  throw Error(
      "{}: is a file; expected the PREFIX of a dataset that `tessera data build` made. JSON Lines "
      "of instructions cannot be evaluated here: a run reports their loss if data.validation "
      "names them, and --task FILE evaluates prompts with answers (docs/evaluation.md).",
      set);
}

void require_inputs(const std::vector<std::string>& sets, const std::vector<std::string>& tasks,
                    const std::string& examples) {
  if (tasks.empty() && !examples.empty()) throw UsageError("eval: --examples requires --task.");
  for (const std::string& set : sets) require_dataset(set);
  for (const std::string& file : tasks) require_task("--task", file);
}

// Throws Error for a dataset that was built with another tokenizer than the checkpoint's.
void require_own_set(const std::string& set, const data::Tokenizer& tokenizer, bool foreign) {
  const std::string found = foreign ? ""
                                    : data::foreign_tokenizer(data::IndexedDataset(set), tokenizer,
                                                              "the checkpoint's tokenizer");
  if (!found.empty())
    throw Error(
        "{}. Build the dataset with the checkpoint's tokenizer, or use --allow-foreign-tokenizer",
        found);
}

// Adds the loss on each dataset to `results`, and prints it as a line unless `json`.
void score_sets(const std::vector<std::string>& sets, const SetOptions& o,
                checkpoint::CheckpointReader& reader, const eval::ModelOptions& options, bool json,
                Tree& results) {
  if (sets.empty()) return;
  const auto& [length, samples, foreign_sets] = o;
  const model::ModelConfig model = eval::model_of(reader);
  if (length > model.context)
    throw Error("--sequence-length is {}, which exceeds the model's context of {}.", length,
                model.context);
  const auto tokenizer = tokenizer_of(reader);
  if (model.encoder_layers > 0) data::require_padding(*tokenizer, "the checkpoint's tokenizer");
  for (const std::string& set : sets) {
    require_own_set(set, *tokenizer, foreign_sets);
    data::DatasetSpec spec;
    spec.datasets = {{set, 1}};
    spec.sequence_length = length > 0 ? length : trained_length(reader, model);
    spec.vocabulary = model.padded_vocabulary();
    if (model.encoder_layers > 0)
      corrupt_as_trained(reader.header().config, *tokenizer, spec);
    else
      take_value(reader.header().config, "data", "intra_document_masking",
                 spec.intra_document_masking);
    const data::ValidationData data(spec);
    eval::Score s = eval::score(reader, data, samples, options);
    if (!std::isfinite(s.loss()))
      throw NumericError(
          "{}: the loss on {} is not finite, although every weight is. Evaluate with --precision "
          "fp32, or use another checkpoint.",
          reader.folder().string(), set);
    // If only some samples were scored, the bytes of the dataset are scaled by the share of tokens.
    s.bytes = static_cast<double>(data.text_bytes(*tokenizer)) * s.tokens /
              static_cast<double>(data.predicted_tokens());
    results.push(as_tree(set, s));
    if (!json)
      fmt::print("{}  loss {:.4f}  perplexity {:.3f}  {:.4f} bits/byte  {} tokens\n", set, s.loss(),
                 std::exp(s.loss()), s.bits_per_byte(), static_cast<int64_t>(s.tokens));
  }
}

// Runs the tasks on all ranks. Only rank 0 prints and writes.
void run_tasks(const eval::TaskChoice& choice, const std::string& examples_file,
               checkpoint::CheckpointReader& reader, const eval::ModelOptions& options,
               comm::World& world, bool json, Tree& results) {
  const auto tokenizer = tokenizer_of(reader);
  std::string rows;
  for (const eval::Task& t : eval::read_tasks(choice)) {
    const eval::TaskResult r = eval::evaluate(reader, *tokenizer, t, world, options);
    results.push(show_task(t.name, r, json || world.rank() > 0));
    for (const eval::ExampleScore& s : r.examples) {
      Tree row = as_tree(s);
      row.set("task", Tree(t.name));
      rows += to_json(row) + "\n";
    }
  }
  if (!examples_file.empty() && world.rank() == 0) write_file(examples_file, rows);
  if (json && world.rank() > 0) results = Tree();
}

void at_least_0(const char* option, int64_t n) {
  if (n < 0) throw UsageError("eval: {} is {}, expected 0 or more.", option, n);
}

compile::Precision precision_named(const std::string& name) {
  if (name != "fp32" && name != "bf16")
    throw UsageError("eval: --precision is '{}', expected fp32 or bf16.", name);
  return name == "bf16" ? compile::Precision::kBf16 : compile::Precision::kFp32;
}

void require_logits_files(const std::string& logits, const std::string& tokens,
                          const std::string& source, bool force) {
  if (logits.empty() != tokens.empty() || (logits.empty() && !source.empty()))
    throw UsageError("eval: --logits FILE and --tokens FILE must be given together.");
  if (!logits.empty()) data::refuse_existing(logits, force);
}

}  // namespace

int verb_eval(Args args) {
  std::string checkpoint, logits_file, tokens_file, source_file, examples_file;
  std::string precision = "fp32", device = "auto", weights = "trained";
  std::vector<std::string> sets;
  SetOptions of_sets;
  eval::TaskChoice tasks;
  int64_t threads = 0;
  bool json = false, force = false;
  Arguments a("eval", "Compute the perplexity of a checkpoint on datasets, and evaluate tasks.",
              "tessera eval runs/pythia-70m corpus/validation --task configs/tasks/piqa.yaml");
  a.required(checkpoint, "CHECKPOINT", "a run directory, a checkpoints folder or one checkpoint");
  a.many(sets, "PREFIX", "datasets of `tessera data build`");
  a.option(of_sets.length, "--sequence-length", "T",
           "tokens per sample; 0: as in training, or the context of an imported model");
  a.option(of_sets.samples, "--samples", "N", "samples per dataset; 0: all");
  a.option(tasks.files, "--task", "FILE", "task file (docs/evaluation.md); repeatable");
  a.option(tasks.folder, "--data", "FOLDER", "folder of the tasks' examples, if not the task's");
  a.option(tasks.shots, "--shots", "N", "few-shot examples; -1: the task's number");
  a.option(tasks.examples, "--limit", "N", "first N examples of each task; 0: all");
  a.option(examples_file, "--examples", "FILE", "JSON Lines file for the result of each example");
  a.option(logits_file, "--logits", "FILE", "safetensors file for logits [B, T, V] of --tokens");
  add_force(a, force);
  a.option(tokens_file, "--tokens", "FILE", "token ids for --logits, as JSON [[id, …], …]");
  a.option(source_file, "--source", "FILE", "encoder input for --logits; id 0 is padding");
  a.flag(of_sets.foreign, "--allow-foreign-tokenizer",
         "accept datasets that were built with another tokenizer");
  add_weights(a, weights);
  a.option(threads, "--threads", "N", "threads; 0: all cores");
  a.option(precision, "--precision", "P", "compute precision: fp32 or bf16");
  a.option(device, "--device", "D", "device: auto, cpu or cuda");
  a.json(json);
  if (!a.parse(args)) return 0;
  if (sets.empty() && logits_file.empty() && tasks.files.empty())
    throw UsageError(
        "eval: nothing to do. Give the PREFIX of a dataset, --task FILE, or --logits FILE with "
        "--tokens FILE.");
  at_least_0("--sequence-length", of_sets.length);
  at_least_0("--samples", of_sets.samples);
  at_least_0("--limit", tasks.examples);
  if (a.given("--shots")) at_least_0("--shots", tasks.shots);
  require_logits_files(logits_file, tokens_file, source_file, force);
  require_inputs(sets, tasks.files, examples_file);
  // Only tasks are divided among the ranks; everything else uses one rank.
  const bool ranks = !tasks.files.empty() && read_rank_info().ranks > 1;
  const std::unique_ptr<comm::World> world = ranks ? comm::mpi_world() : comm::self_world();
  const eval::ModelOptions options = {precision_named(precision), threads_or_all(threads),
                                      gpu_named(device, *world)};
  checkpoint::CheckpointReader reader = open_checkpoint(checkpoint, weights);
  if (!logits_file.empty()) save_logits(reader, logits_file, tokens_file, source_file, options);
  Tree results = Tree::list();
  score_sets(sets, of_sets, reader, options, json, results);
  if (!tasks.files.empty()) run_tasks(tasks, examples_file, reader, options, *world, json, results);
  if (json && !results.is_null()) {
    Tree root;
    root.set("results", std::move(results));
    fmt::print("{}\n", to_json(root));
  }
  return 0;
}

}  // namespace tessera::cli
