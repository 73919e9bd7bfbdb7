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
#include "config/chat_section.h"
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

// Sets how conversations are read to what the run did. The chat template itself is a part of the
// checkpoint.
void read_chat_as_trained(const Tree& config, config::ChatSection& chat) {
  const Tree* const section = config.as_members() != nullptr ? config.find("data") : nullptr;
  if (section == nullptr || section->as_members() == nullptr) return;
  for (const Field& f : fields_of(chat)) {
    if (f.path == "chat_template" || f.path == "allow_other_template") continue;
    if (const Tree* const value = section->find(f.path)) f.read(*value, {});
  }
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
  const Tree* const data = config.as_members() != nullptr ? config.find("data") : nullptr;
  const Tree* const files =
      data != nullptr && data->as_members() != nullptr ? data->find("instructions") : nullptr;
  return files != nullptr && files->as_list() != nullptr && !files->as_list()->empty();
}

// Returns the sample length of the training run, or the model's context if the header does not
// contain the length (an imported model) or contains a larger one.
int64_t trained_length(const checkpoint::CheckpointReader& reader,
                       const model::ModelConfig& model) {
  int64_t length = 0;
  take_value(reader.header().config, "data", "sequence_length", length);
  return length > 0 ? std::min(length, model.context) : model.context;
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

// A folder that is removed with this object.
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
        length_(o.length > 0 ? o.length : trained_length(reader, model_)) {
    if (o.length > model_.context)
      throw Error("--sequence-length is {}, which exceeds the model's context of {}.", o.length,
                  model_.context);
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
  data::build_dataset(*tokenizer_, build, {});
  score(file, data::ValidationData(spec_of(build.out.string())));
}

// The template is that of --template; otherwise that of the run; otherwise the chat template of the
// checkpoint.
void DataScorer::instructions(const std::string& file) {
  config::RunConfig config;
  config.model = model_;
  config.checkpoint.from = reader_.folder().string();
  config.data.instructions = {file};
  config.data.sequence_length = length_;
  config.data.form = o_.form;
  const Tree& stored = reader_.header().config;
  const Tree* section = stored.as_members() != nullptr ? stored.find("data") : nullptr;
  const Tree* form =
      section != nullptr && section->as_members() != nullptr ? section->find("template") : nullptr;
  if (o_.form.empty() && form != nullptr && form->as_string() != nullptr)
    config.data.form = *form->as_string();
  read_chat_as_trained(stored, config.chat);
  // The default of runs on instructions, which an imported model and a run on text do not have.
  config.data.intra_document_masking = !has_encoder();
  if (trained_on_instructions(stored))
    take_value(stored, "data", "intra_document_masking", config.data.intra_document_masking);
  take_value(stored, "data", "target_length", config.data.target_length);
  if (has_encoder() && config.data.target_length == 0) config.data.target_length = length_;
  config.data.long_examples = o_.long_examples == "skip"       ? data::LongExamples::kSkip
                              : o_.long_examples == "truncate" ? data::LongExamples::kTruncate
                                                               : data::LongExamples::kError;
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
