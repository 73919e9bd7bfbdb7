// Computes the loss on data. A dataset is read as it is; text is first tokenized into a temporary
// dataset, so that files of any size fit; instructions are encoded and packed as in training.
#include "cli/eval_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/temporary.h"
#include "base/utf8.h"
#include "cli/checkpoint_file.h"
#include "cli/run_file.h"
#include "cli/trained_data.h"
#include "data/dataset_about.h"
#include "data/dataset_builder.h"
#include "data/source_list.h"
#include "data/vocabulary.h"
#include "eval/adapted_model.h"
#include "train/run_data.h"

namespace tessera::cli {
namespace {

Tree as_tree(const std::string& set, const std::string& adapter, const eval::Score& s) {
  Tree t;
  t.set("data", Tree(set));
  if (!adapter.empty()) t.set("adapter", Tree(adapter));
  t.set("tokens", Tree(static_cast<int64_t>(s.tokens)));
  t.set("loss", Tree(s.loss()));
  t.set("perplexity", Tree(std::exp(s.loss())));
  t.set("bits_per_byte", Tree(s.bits_per_byte()));
  return t;
}

// Sets the span corruption to that of the run's validation.
void corrupt_as_trained(const Tree& config, const data::Tokenizer& tokenizer,
                        data::DatasetSpec& spec) {
  spec.spans = data::span_objective(tokenizer);
  take_value(config, "run", "seed", spec.seed);
  take_value(config, "data", "noise_density", spec.spans->how.noise_density);
  take_value(config, "data", "mean_span", spec.spans->how.mean_span);
}

bool trained_on_instructions(const Tree& config) {
  const Tree* const files = find_key(config, "data", "instructions");
  return files != nullptr && files->as_list() != nullptr && !files->as_list()->empty();
}

// Throws Error for a text file, which is not the PREFIX of a dataset.
void require_dataset(const std::string& set) {
  if (std::filesystem::exists(set + ".idx") || !std::filesystem::is_regular_file(set)) return;
  throw Error(
      "{}: is a file; expected the PREFIX of a dataset that `tessera data build` made. --text FILE "
      "evaluates a file of text, --instructions FILE one of prompts and responses.",
      set);
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

// A temporary folder, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const Path name = std::filesystem::temp_directory_path() / "tessera-eval";
    path_ = temporary_name(name);
    std::filesystem::create_directory(path_);
    remove_abandoned(name, path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

class DataScorer {
 public:
  DataScorer(const EvalDataOptions& o, checkpoint::CheckpointReader& reader,
             const std::vector<NamedAdapters>& adapters, const eval::ModelOptions& options,
             bool quiet, Tree& results)
      : o_(o),
        reader_(reader),
        adapters_(adapters),
        options_(options),
        quiet_(quiet),
        results_(results),
        model_(eval::model_of(reader)),
        tokenizer_(tokenizer_of(reader)),
        length_(sample_length(o.length, reader, model_)) {
    if (has_encoder()) data::require_padding(*tokenizer_, "the checkpoint's tokenizer");
  }

  void dataset(const std::string& set) {
    require_own_set(set, *tokenizer_, o_.foreign);
    score(set, data::ValidationData(spec_of(set)));
  }
  void text(const std::string& file);
  void instructions(const std::string& file);

 private:
  bool has_encoder() const { return model_.encoder_layers > 0; }
  data::DatasetSpec spec_of(const std::string& prefix) const;
  void score(const std::string& name, const data::ValidationData& data);
  void add(const std::string& name, const std::string& adapter, const eval::Score& s);

  const EvalDataOptions& o_;
  checkpoint::CheckpointReader& reader_;
  const std::vector<NamedAdapters>& adapters_;
  const eval::ModelOptions& options_;
  bool quiet_;
  Tree& results_;
  model::ModelConfig model_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  int64_t length_;
};

data::DatasetSpec DataScorer::spec_of(const std::string& prefix) const {
  data::DatasetSpec spec;
  spec.datasets = {{prefix, 1}};
  spec.sequence_length = length_;
  spec.vocabulary = model_.padded_vocabulary();
  if (has_encoder())
    corrupt_as_trained(reader_.header().config, *tokenizer_, spec);
  else
    take_value(reader_.header().config, "data", "intra_document_masking",
               spec.intra_document_masking);
  return spec;
}

void DataScorer::score(const std::string& name, const data::ValidationData& data) {
  eval::AdaptedModel<eval::ScoreModel> model;
  std::optional<int64_t> text_bytes;
  for (const NamedAdapters& named : adapters_) {
    eval::ScoreModel& adapted = model.with(reader_, named.adapters, [&] {
      return std::make_unique<eval::ScoreModel>(reader_, data, options_);
    });
    eval::Score s = adapted.read(o_.samples);
    if (s.tokens == 0)
      throw Error("{}: has no token to predict; expected a text or an answer of two tokens or more",
                  name);
    // If only some samples were scored, the bytes of the dataset are scaled by the share of tokens.
    if (!text_bytes) text_bytes = data.text_bytes(*tokenizer_);
    s.bytes =
        static_cast<double>(*text_bytes) * s.tokens / static_cast<double>(data.predicted_tokens());
    add(name, named.name, s);
  }
}

void DataScorer::add(const std::string& name, const std::string& adapter, const eval::Score& s) {
  if (!std::isfinite(s.loss()))
    throw NumericError(
        "{}: the loss on {} is not finite, although every weight is. Evaluate with --precision "
        "fp32, or use another checkpoint.",
        adapter.empty() ? reader_.folder().string() : "--adapter " + adapter, name);
  results_.push(as_tree(name, adapter, s));
  if (!quiet_)
    fmt::print("{}{}  loss {:.4f}  perplexity {:.3f}  {:.4f} bits/byte  {} tokens\n", name,
               adapter_label(adapter), s.loss(), std::exp(s.loss()), s.bits_per_byte(),
               static_cast<int64_t>(s.tokens));
}

// Each rank makes its own dataset, since the ranks may be on different machines.
void DataScorer::text(const std::string& file) {
  const TemporaryFolder folder;
  data::BuildOptions build;
  build.inputs = {file};
  build.documents.key = o_.key;
  build.out = folder.path() / "text";
  build.tokenizer_name = reader_.folder().string();
  build.end_of_text = tokenizer_->end_of_text().has_value();
  build.threads = options_.threads;
  data::build_dataset(*tokenizer_, build, [&](const data::BuildProgress& p) {
    if (options_.on_progress) options_.on_progress(p.bytes_read, p.bytes_total);
  });
  score(file, data::ValidationData(spec_of(build.out.string())));
}

// The template is that of --template; otherwise that of the run; otherwise the chat template of the
// checkpoint.
void DataScorer::instructions(const std::string& file) {
  config::RunConfig config = run_on_examples({file, o_.long_examples, length_}, reader_, model_);
  config.data.form = o_.form;
  const Tree& stored = reader_.header().config;
  const Tree* const form = find_key(stored, "data", "template");
  if (o_.form.empty() && form != nullptr && form->as_string() != nullptr)
    config.data.form = *form->as_string();
  // The default of runs on instructions, which an imported model and a run on text do not have.
  config.data.intra_document_masking = !has_encoder();
  if (trained_on_instructions(stored))
    take_value(stored, "data", "intra_document_masking", config.data.intra_document_masking);
  take_value(stored, "data", "target_length", config.data.target_length);
  if (has_encoder() && config.data.target_length == 0) config.data.target_length = length_;
  std::optional<data::ValidationData> data;
  try {
    data.emplace(train::instruction_spec(config, *tokenizer_), *tokenizer_);
  } catch (const Error& e) {
    throw Error(
        "{}\n  These keys are options here: --sequence-length, --long-examples, --template.",
        e.what());
  }
  score(file, *data);
}

}  // namespace

void require_eval_data(const EvalDataOptions& o) {
  for (const std::string& set : o.sets) require_dataset(set);
  for (const std::string& file : o.texts) require_file("--text", file);
  for (const std::string& file : o.instructions) require_file("--instructions", file);
  if (o.long_examples != "error" && o.long_examples != "skip" && o.long_examples != "truncate")
    throw UsageError("eval: --long-examples is '{}', expected error, skip or truncate.",
                     o.long_examples);
}

void score_data(const EvalDataOptions& o, checkpoint::CheckpointReader& reader,
                const std::vector<NamedAdapters>& adapters, const eval::ModelOptions& model,
                bool quiet, Tree& results) {
  if (o.empty()) return;
  DataScorer scorer(o, reader, adapters, model, quiet, results);
  for (const std::string& set : o.sets) scorer.dataset(set);
  for (const std::string& file : o.texts) scorer.text(file);
  for (const std::string& file : o.instructions) scorer.instructions(file);
}

}  // namespace tessera::cli
