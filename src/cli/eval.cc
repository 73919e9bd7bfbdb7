// tessera eval CHECKPOINT: computes the perplexity on data, the loss on pairs of answers, the
// results of tasks, or raw logits.
//
// The loss on a dataset is the mean of -ln p over tokens; perplexity is its exponential. Both
// depend on the tokenizer, so bits per byte (total loss / ln 2 / bytes of text) are printed too,
// which can be compared between models with different vocabularies. Samples have the length of the
// training run and, for an encoder-decoder model, the span corruption of its validation, so that
// the loss can be compared with the validation loss in the log of the run.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/tree.h"
#include "base/utf8.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stored_model.h"
#include "cli/adapter_option.h"
#include "cli/arguments.h"
#include "cli/checkpoint_file.h"
#include "cli/eval_data.h"
#include "cli/eval_preferences.h"
#include "cli/model_layout.h"
#include "cli/rank.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/status_line.h"
#include "cli/verbs.h"
#include "data/source_list.h"
#include "data/tokenizer_json.h"
#include "data/vocabulary.h"
#include "eval/evaluate.h"
#include "eval/task_names.h"

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

// Prints the results of one task as a line unless `quiet`, and returns them as a tree.
Tree show_task(const std::string& name, const std::string& adapter, const eval::TaskResult& r,
               bool quiet) {
  Tree t, metrics = Tree::object();
  std::string line = fmt::format("{:<20}", name);
  for (const eval::Metric& m : r.metrics) {
    Tree one;
    one.set("value", Tree(m.value));
    one.set("standard_error", Tree(m.error));
    metrics.set(m.name, std::move(one));
    line += fmt::format("  {} {:.4f} ± {:.4f}", m.name, m.value, m.error);
  }
  if (!quiet)
    fmt::print("{}  {}{}\n", line, counted(std::ssize(r.examples), "example"),
               adapter_label(adapter));
  t.set("task", Tree(name));
  if (!adapter.empty()) t.set("adapter", Tree(adapter));
  t.set("examples", Tree(std::ssize(r.examples)));
  t.set("metrics", std::move(metrics));
  return t;
}

// Splits `a,b` into two names, unless a file has this name. Duplicate names are removed.
std::vector<std::string> task_names(const std::vector<std::string>& given) {
  std::vector<std::string> names;
  for (const std::string& text : given) {
    std::error_code error;
    const bool is_file = std::filesystem::exists(text, error);
    for (size_t at = 0; at <= text.size();) {
      const size_t end = is_file ? text.size() : std::min(text.find(',', at), text.size());
      std::string name = text.substr(at, end - at);
      if (!name.empty() && std::ranges::count(names, name) == 0) names.push_back(std::move(name));
      at = end + 1;
    }
  }
  return names;
}

// Returns the names of the metrics of a task.
std::string metrics_of(const eval::TaskSpec& spec) {
  switch (spec.kind) {
    case eval::TaskKind::kChoice:
      return spec.unconditional.empty() ? "accuracy, accuracy_length"
                                        : "accuracy, accuracy_length, accuracy_unconditional";
    case eval::TaskKind::kLastWord:
      return "accuracy, perplexity";
    case eval::TaskKind::kExactMatch:
      return spec.extract_last.empty() ? "exact_match" : "exact_match, exact_match_last";
  }
  return "";
}

// Prints the tasks that the program contains, and where their examples are looked for.
void list_tasks(const std::string& folder, bool json) {
  Tree list = Tree::list();
  for (const eval::KnownTask& t : eval::known_tasks()) {
    Tree one, aliases = Tree::list();
    for (const std::string& alias : t.spec.aliases) aliases.push(Tree(alias));
    one.set("name", Tree(t.name));
    one.set("aliases", std::move(aliases));
    one.set("about", Tree(t.spec.about));
    one.set("metrics", Tree(metrics_of(t.spec)));
    one.set("shots", Tree(t.spec.shots));
    one.set("data", Tree(t.spec.data));
    one.set("dataset", Tree(t.spec.dataset));
    list.push(std::move(one));
    if (!json)
      fmt::print(
          "{:<16} {}{}\n{:<17}metrics {}; examples {} (published: {})\n", t.name, t.spec.about,
          t.spec.aliases.empty() ? "" : fmt::format("; also {}", fmt::join(t.spec.aliases, ", ")),
          "", metrics_of(t.spec), t.spec.data, t.spec.dataset);
  }
  Tree root, folders = Tree::list();
  std::string shown;
  for (const Path& from : eval::example_folders("", folder)) {
    const std::string name = from.empty() ? "." : from.string();
    folders.push(Tree(name));
    shown += (shown.empty() ? "" : ", ") + name;
  }
  root.set("tasks", std::move(list));
  root.set("folders", std::move(folders));
  if (json)
    fmt::print("{}\n", to_json(root));
  else
    fmt::print("Examples are looked for in {}; --data DIR and ${} name others.\n", shown,
               eval::kDataFolderVariable);
}

// Returns the options for the loss on data: ranks that each hold a copy read different samples.
eval::ModelOptions options_for_data(eval::ModelOptions options, comm::World& world) {
  if (options.world != nullptr || world.size() == 1) return options;
  options.world = &world;
  options.layout = {};
  options.layout.data = world.size();
  options.layout.zero = 0;
  return options;
}

// The arguments of the command.
struct EvalCommand {
  std::string checkpoint, logits_file, tokens_file, source_file, examples_file;
  std::string precision = "fp32", device = "auto", weights = "trained", layout = "auto";
  std::vector<std::string> adapters;
  EvalDataOptions data;
  EvalPreferencesOptions preferences;
  eval::TaskChoice tasks;
  int64_t threads = 0;
  bool json = false, force = false;
};

// Runs the tasks on all ranks, with each of the adapters, and returns the rows of their examples.
// Only rank 0 prints.
std::string run_tasks(const EvalCommand& c, checkpoint::CheckpointReader& reader,
                      const std::vector<NamedAdapters>& adapters, const eval::ModelOptions& options,
                      comm::World& world, bool quiet, Tree& results) {
  const auto tokenizer = tokenizer_of(reader);
  std::string rows;
  eval::AdapterList list;
  for (const NamedAdapters& named : adapters) list.push_back(named.adapters);
  const auto add = [&](const eval::Task& t, const std::string& adapter, const eval::TaskResult& r) {
    results.push(show_task(t.name, adapter, r, quiet));
    for (size_t i = 0; i < r.examples.size(); ++i) {
      Tree row;
      row.set("task", Tree(t.name));
      if (!adapter.empty()) row.set("adapter", Tree(adapter));
      const Tree result = eval::example_row(t.spec, t.examples[i], r.examples[i]);
      for (const auto& [key, value] : *result.as_members()) row.set(key, value);
      rows += to_json(row) + "\n";
    }
  };
  for (const eval::Task& t : eval::read_tasks(c.tasks)) {
    const std::vector<eval::TaskResult> all =
        eval::evaluate(reader, list, *tokenizer, t, world, options);
    for (size_t a = 0; a < all.size(); ++a) add(t, adapters[a].name, all[a]);
  }
  return rows;
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
  if (!logits.empty()) {
    data::check_folder_of(logits);
    data::refuse_existing(logits, force);
  }
}

void declare_data(Arguments& a, EvalDataOptions& data) {
  a.many(data.sets, "PREFIX", "datasets of `tessera data build`");
  a.option(data.texts, "--text", "FILE",
           "text, JSON Lines or Parquet to compute the loss on (repeatable)");
  a.option(data.key, "--key", "KEY", "key of the text in the lines of --text");
  a.option(data.instructions, "--instructions", "FILE",
           "instructions or conversations, loss on the responses (repeatable)");
  a.option(data.form, "--template", "TEXT", "template of --instructions, if not the checkpoint's");
  a.option(data.long_examples, "--long-examples", "HOW",
           "instructions or pairs longer than a sample: error, skip or truncate");
  a.option(data.length, "--sequence-length", "T",
           "tokens per sample; 0: as in training, or the context of an imported model");
  a.option(data.samples, "--samples", "N", "samples per dataset; 0: all");
  a.flag(data.foreign, "--allow-foreign-tokenizer",
         "accept datasets that were built with another tokenizer");
}

void declare_preferences(Arguments& a, EvalPreferencesOptions& preferences) {
  a.option(preferences.files, "--preferences", "FILE",
           "pairs of answers, for a checkpoint of a preference objective or a reward model "
           "(repeatable)");
  a.option(preferences.reference, "--reference", "CHECKPOINT",
           "reference model of dpo, ipo and kto, if the run directory has no log-probabilities of "
           "these answers");
  a.option(preferences.scores_file, "--scores", "FILE",
           "JSON Lines file for the reward (or the score) of each answer of --preferences");
}

void declare_tasks(Arguments& a, EvalCommand& c) {
  a.option(
      c.tasks.files, "--task", "NAME,…",
      "tasks by name, or task files (docs/evaluation.md); `list` shows the names (repeatable)");
  a.option(c.tasks.folder, "--data", "DIR", "folder of the tasks' examples");
  a.option(c.tasks.shots, "--shots", "N", "few-shot examples (default: the task's own number)");
  a.option(c.tasks.examples, "--limit", "N", "first N examples of each task; 0: all");
  a.option(c.examples_file, "--examples", "FILE", "JSON Lines file for the result of each example");
}

void declare_rest(Arguments& a, EvalCommand& c) {
  a.option(c.logits_file, "--logits", "FILE", "safetensors file for logits [B, T, V] of --tokens");
  add_force(a, c.force);
  a.option(c.tokens_file, "--tokens", "FILE", "token ids for --logits, as JSON [[id, …], …]");
  a.option(c.source_file, "--source", "FILE", "encoder input for --logits; id 0 is padding");
  add_adapters(a, c.adapters);
  add_weights(a, c.weights);
  add_layout(a, c.layout);
  a.option(c.threads, "--threads", "N", "threads; 0: all cores");
  a.option(c.precision, "--precision", "P", "compute precision: fp32 or bf16");
  a.option(c.device, "--device", "D", "device: auto, cpu or cuda");
  a.json(c.json);
}

void check_preferences(const EvalCommand& c) {
  const EvalPreferencesOptions& p = c.preferences;
  for (const std::string& file : p.files) require_file("--preferences", file);
  for (const auto& [option, value] :
       {std::pair{"--reference", p.reference}, {"--scores", p.scores_file}})
    if (p.files.empty() && !value.empty())
      throw UsageError("eval: {} requires --preferences.", option);
  if (!p.files.empty() && !c.adapters.empty())
    throw UsageError(
        "eval: --preferences measures the model as the run trained it, so --adapter cannot be "
        "given "
        "with it.");
  if (!p.scores_file.empty()) {
    data::SourceList inputs;
    inputs.files = p.files;
    data::check_output(p.scores_file, inputs);
    data::check_folder_of(p.scores_file);
    data::refuse_existing(p.scores_file, c.force);
  }
}

// Throws UsageError or Error for arguments that cannot be used.
void check_command(const EvalCommand& c, const Arguments& a) {
  if (c.data.empty() && c.logits_file.empty() && c.tasks.files.empty() &&
      c.preferences.files.empty())
    throw UsageError(
        "eval: nothing to do. Give the PREFIX of a dataset, --text FILE, --instructions FILE, "
        "--preferences FILE, --task NAME, or --logits FILE with --tokens FILE.");
  at_least_0("--sequence-length", c.data.length);
  at_least_0("--samples", c.data.samples);
  at_least_0("--limit", c.tasks.examples);
  if (a.given("--shots")) at_least_0("--shots", c.tasks.shots);
  require_logits_files(c.logits_file, c.tokens_file, c.source_file, c.force);
  if (c.tasks.files.empty() && !c.examples_file.empty())
    throw UsageError("eval: --examples requires --task.");
  if (!c.examples_file.empty()) {
    data::check_folder_of(c.examples_file);
    data::refuse_existing(c.examples_file, c.force);
  }
  require_eval_data(c.data);
  check_preferences(c);
  for (const std::string& name : c.tasks.files) require_task("--task", name);
  if (c.adapters.size() > 1 && !c.logits_file.empty())
    throw UsageError("eval: --logits writes the logits with one --adapter, but {} were given.",
                     c.adapters.size());
  if (read_rank_info().ranks > 1 && !c.logits_file.empty())
    throw UsageError("eval: --logits requires one rank. Start it without mpirun.");
}

void evaluate(const EvalCommand& c) {
  const bool ranks = read_rank_info().ranks > 1;
  const std::unique_ptr<comm::World> world = ranks ? comm::mpi_world() : comm::self_world();
  eval::ModelOptions options = {precision_named(c.precision), threads_or_all(c.threads),
                                gpu_named(c.device, *world)};
  ShareLine progress;
  if (world->rank() == 0)
    options.on_progress = [&](int64_t done, int64_t all) { progress.show(done, all); };
  checkpoint::CheckpointReader reader = open_checkpoint(c.checkpoint, c.weights);
  if (!c.data.empty() || !c.tasks.files.empty() || !c.logits_file.empty())
    checkpoint::require_logits(reader);
  divide_model(c.layout, reader, *world, options);
  const std::vector<NamedAdapters> adapters = open_adapters(c.adapters, reader);
  if (!c.logits_file.empty()) {
    reader.use_adapters(adapters[0].adapters);
    save_logits(reader, c.logits_file, c.tokens_file, c.source_file, options);
  }
  Tree results = Tree::list();
  const bool quiet = c.json || world->rank() > 0;
  const eval::ModelOptions for_data = options_for_data(options, *world);
  score_data(c.data, reader, adapters, for_data, quiet, results);
  const std::string scores =
      score_preferences(c.preferences, c.data, reader, for_data, *world, quiet, results);
  std::string examples;
  if (!c.tasks.files.empty())
    examples = run_tasks(c, reader, adapters, options, *world, quiet, results);
  if (world->rank() > 0) return;
  if (c.json) {
    Tree root;
    root.set("results", std::move(results));
    fmt::print("{}\n", to_json(root));
  }
  // Last: if the disk is full, the results are printed nevertheless.
  if (!c.preferences.scores_file.empty()) write_file(c.preferences.scores_file, scores);
  if (!c.examples_file.empty()) write_file(c.examples_file, examples);
}

}  // namespace

int verb_eval(Args args) {
  EvalCommand c;
  Arguments a(
      "eval", "Compute the perplexity of a checkpoint on data, and evaluate tasks.",
      "tessera eval runs/pythia-70m corpus/validation --task piqa,arc_easy --data examples");
  a.required(c.checkpoint, "CHECKPOINT",
             "a run directory, a checkpoints folder, one checkpoint or a Hugging Face folder");
  declare_data(a, c.data);
  declare_preferences(a, c.preferences);
  declare_tasks(a, c);
  declare_rest(a, c);
  if (!a.parse(args)) return 0;
  c.tasks.files = task_names(c.tasks.files);
  if (std::ranges::count(c.tasks.files, "list") > 0) {
    list_tasks(c.tasks.folder, c.json);
    return 0;
  }
  check_command(c, a);
  evaluate(c);
  return 0;
}

}  // namespace tessera::cli
