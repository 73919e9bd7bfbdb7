// Evaluates pairs of answers. One program computes the log-probability of every answer; the host
// computes losses and rewards from them, as the validation of a run does.
#include "cli/eval_preferences.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/config.h"
#include "base/error.h"
#include "checkpoint/stored_model.h"
#include "cli/checkpoint_file.h"
#include "cli/show.h"
#include "cli/trained_data.h"
#include "comm/agree.h"
#include "compile/compile.h"
#include "data/vocabulary.h"
#include "eval/model_programs.h"
#include "ir/ops/preference.h"
#include "train/answer_sums.h"
#include "train/pair_metrics.h"
#include "train/references.h"
#include "train/run_data.h"

namespace tessera::cli {
namespace {

constexpr int64_t kPairs = 4;  // pairs per micro-batch

// Returns the objective of the run that wrote the checkpoint. Throws Error for another than one
// that compares answers.
config::ObjectiveSection objective_of(const checkpoint::CheckpointReader& reader) {
  config::ObjectiveSection objective;
  const Tree& config = reader.header().config;
  for (const Field& f : fields_of(objective))
    if (const Tree* const value = find_key(config, "objective", f.path.c_str())) f.read(*value, {});
  if (objective.has_pairs()) return objective;
  throw Error(
      "{}: {}, expected for --preferences a checkpoint of an objective that compares answers (dpo, "
      "ipo, orpo, kto, simpo or reward). --instructions FILE measures the loss on its responses.",
      reader.folder().string(),
      config.as_members() == nullptr ? "was not trained by a run (it is imported)"
                                     : "was trained with objective.kind = sft");
}

// Which weights a program reads.
enum class Answers : uint8_t { kModel, kWithoutAdapters };

// A model that computes sums of answers.
class PairModel {
 public:
  PairModel(checkpoint::CheckpointReader& reader, const PreferenceTerms& terms,
            const model::ModelConfig& model, int64_t length, const eval::ModelOptions& options)
      : world_(options.world), on_progress_(options.on_progress) {
    compile::CompileRequest r =
        eval::request(model, compile::ProgramKind::kValidate, kPairs, length, options);
    r.preference = terms;
    r.intra_document_masking = true;
    r.keep_answer_sums = true;
    auto kernels = eval::kernels_of(options);
    std::vector<Program> programs;
    programs.push_back(eval::compile_for(reader, r, *kernels));
    r.adapters = eval::adapters_of(reader, model);
    if (r.adapters.rank > 0) {
      has_adapters_ = true;
      r.adapters.alpha = 0;  // adapters stay in the state, but add 0
      programs.push_back(compile::compile(r, kernels->target()));
    }
    engine_ = eval::load(reader, std::move(programs), std::move(kernels), options.world);
  }

  bool has_adapters() const { return has_adapters_; }

  std::vector<double> sums(const data::PreferenceData& data, int64_t pairs, Answers of) {
    train::AnswerPass pass(*engine_, static_cast<size_t>(of), batch_, data, world_);
    return train::sums_of_pairs(pass, pairs, [&](int64_t done) {
      if (on_progress_) on_progress_(done, pairs);
    });
  }

 private:
  comm::World* world_;
  eval::OnProgress on_progress_;
  bool has_adapters_ = false;
  train::BatchMemory batch_;
  std::unique_ptr<runtime::Engine> engine_;
};

Tree row_of(const data::PreferenceData& data, int64_t pair, const kernels::PairLoss& loss,
            bool single) {
  Tree row;
  row.set("data", Tree(data.files()[data.file(pair)]));
  row.set("line", Tree(data.line(pair)));
  if (!single) {
    row.set("chosen", Tree(loss.figures[0]));
    row.set("rejected", Tree(loss.figures[1]));
  } else {
    const bool desirable = data.figure(pair) != 0;
    row.set("label", Tree(desirable));
    row.set("reward", Tree(loss.figures[desirable ? 0 : 1]));
  }
  return row;
}

class PreferenceScorer {
 public:
  PreferenceScorer(const EvalPreferencesOptions& o, const EvalDataOptions& rows,
                   checkpoint::CheckpointReader& reader, const eval::ModelOptions& options,
                   comm::World& world)
      : o_(o),
        rows_(rows),
        reader_(reader),
        options_(options),
        world_(world),
        objective_(objective_of(reader)),
        terms_(*config::preference_terms(objective_)),
        model_(checkpoint::stored_model(reader)),
        tokenizer_(tokenizer_of(reader)),
        length_(sample_length(rows.length, reader, model_)) {
    if (!o.reference.empty() && !objective_.has_reference())
      throw Error(
          "--reference is given, but {} has objective.kind = {}, which has no reference model. "
          "Omit "
          "it.",
          reader.folder().string(), name_of_entry(objective_.kind));
    for (const std::string& file : o.files) sets_.push_back(open(file));
  }

  // Returns the rows of --scores.
  std::string run(bool quiet, Tree& results);

 private:
  std::unique_ptr<data::PreferenceData> open(const std::string& file) const;
  int64_t pairs_of(const data::PreferenceData& data) const {
    return rows_.samples > 0 ? std::min(rows_.samples, data.pairs()) : data.pairs();
  }
  bool is_without_adapters() const {
    return objective_.reference == config::ReferenceSource::kAdaptersOff && o_.reference.empty();
  }
  void read_references();
  void read_references_of_run(data::PreferenceData& data);
  std::vector<kernels::PairLoss> losses(PairModel& model, data::PreferenceData& data) const;
  Tree result(const std::string& file, std::span<const kernels::PairLoss> losses, bool quiet) const;

  const EvalPreferencesOptions& o_;
  const EvalDataOptions& rows_;
  checkpoint::CheckpointReader& reader_;
  const eval::ModelOptions& options_;
  comm::World& world_;
  config::ObjectiveSection objective_;
  PreferenceTerms terms_;
  model::ModelConfig model_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  int64_t length_;
  std::vector<std::unique_ptr<data::PreferenceData>> sets_;
};

std::unique_ptr<data::PreferenceData> PreferenceScorer::open(const std::string& file) const {
  config::RunConfig config = run_on_examples({file, rows_.long_examples, length_}, reader_, model_);
  config.objective = objective_;
  std::unique_ptr<data::PreferenceData> data;
  try {
    data =
        train::preference_data(config, train::instruction_spec(config, *tokenizer_), *tokenizer_);
  } catch (const Error& e) {
    throw Error("{}\n  These keys are options here: --sequence-length, --long-examples.", e.what());
  }
  data->require_vocabulary(model_.padded_vocabulary());
  return data;
}

// Gives the pairs that are scored the log-probabilities that a model computes; others have 0.
void set_references(data::PreferenceData& data, std::span<const double> sums) {
  std::vector<double> log_probs = train::log_probs_of(sums);
  log_probs.resize(kAnswersPerRow * data.pairs());
  data.set_references(std::move(log_probs));
}

// The run directory of a checkpoint has the log-probabilities of the data of the run.
void PreferenceScorer::read_references_of_run(data::PreferenceData& data) {
  const Path run = std::filesystem::absolute(reader_.folder()).parent_path().parent_path();
  std::string bytes;
  comm::on_all(world_, [&] {
    if (world_.rank() != 0) return;
    const std::vector<double> found = train::stored_references(run, data);
    bytes.assign(reinterpret_cast<const char*>(found.data()), found.size() * sizeof(double));
  });
  world_.broadcast(bytes, 0);
  std::vector<double> found(bytes.size() / sizeof(double));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  if (!found.empty()) return data.set_references(std::move(found));
  const Tree* const from = find_key(reader_.header().config, "checkpoint", "from");
  const bool known = from != nullptr && from->as_string() != nullptr && !from->as_string()->empty();
  throw Error(
      "{}: {} has no log-probabilities of its answers under the reference model of objective.kind "
      "= "
      "{}. Give that model with --reference CHECKPOINT: the weights that the run started from{}.",
      data.files()[0], run.string(), name_of_entry(objective_.kind),
      known ? fmt::format(" ({})", *from->as_string()) : "");
}

// Sets the log-probabilities under the reference model, unless that is the model itself without its
// adapters, which losses() computes.
void PreferenceScorer::read_references() {
  if (!objective_.has_reference() || is_without_adapters()) return;
  if (o_.reference.empty()) {
    for (const auto& data : sets_) read_references_of_run(*data);
    return;
  }
  checkpoint::CheckpointReader reader = open_checkpoint(o_.reference, "trained");
  const model::ModelConfig model = eval::model_of(reader);
  if (model.encoder_layers > 0)
    throw Error("--reference {}: family {} has an encoder, expected a model that continues a text.",
                o_.reference, name_of_entry(model.family));
  if (!data::means_the_same(*tokenizer_of(reader), *tokenizer_))
    throw Error(
        "--reference {}: its tokenizer gives other tokens than the tokenizer of {}, so its "
        "log-probabilities "
        "belong to other texts. Give the weights that the run started from.",
        o_.reference, reader_.folder().string());
  for (const auto& data : sets_) data->require_vocabulary(model.padded_vocabulary());
  PairModel reference(reader, terms_, model, length_, options_);
  for (const auto& data : sets_)
    set_references(*data, reference.sums(*data, pairs_of(*data), Answers::kModel));
}

std::vector<kernels::PairLoss> PreferenceScorer::losses(PairModel& model,
                                                        data::PreferenceData& data) const {
  const int64_t pairs = pairs_of(data);
  if (objective_.has_reference() && is_without_adapters()) {
    if (!model.has_adapters())
      throw Error(
          "{}: objective.reference = adapters_off, but it has no adapters (they were merged). Give "
          "the model without them with --reference CHECKPOINT.",
          reader_.folder().string());
    set_references(data, model.sums(data, pairs, Answers::kWithoutAdapters));
  }
  return train::losses_of_pairs(objective_, data, model.sums(data, pairs, Answers::kModel));
}

// Returns the results on a file, and prints them as a line unless `quiet`.
Tree PreferenceScorer::result(const std::string& file, std::span<const kernels::PairLoss> losses,
                              bool quiet) const {
  const train::PairsResult r = train::result_of_pairs(objective_, losses);
  if (!std::isfinite(r.loss))
    throw NumericError(
        "{}: the loss on {} is not finite, although every weight is. Evaluate with --precision "
        "fp32, or use another checkpoint.",
        reader_.folder().string(), file);
  Tree t;
  t.set("data", Tree(file));
  t.set("pairs", Tree(r.pairs));
  t.set("loss", Tree(r.loss));
  for (const auto& [key, value] : train::figures_of(r.figures)) t.set(key, Tree(value));
  if (quiet) return t;
  const bool single = objective_.kind == config::ObjectiveKind::kKto;
  fmt::print("{}  loss {:.4f}{}  margin {:.4f}  {}\n", file, r.loss,
             r.figures.has_accuracy ? fmt::format("  accuracy {:.4f}", r.figures.accuracy) : "",
             r.figures.margin(), counted(r.pairs, single ? "example" : "pair"));
  return t;
}

std::string PreferenceScorer::run(bool quiet, Tree& results) {
  read_references();
  PairModel model(reader_, terms_, model_, length_, options_);
  std::string rows;
  for (size_t i = 0; i < sets_.size(); ++i) {
    const std::vector<kernels::PairLoss> all = losses(model, *sets_[i]);
    results.push(result(o_.files[i], all, quiet));
    for (int64_t pair = 0; pair < std::ssize(all); ++pair)
      rows += to_json(row_of(*sets_[i], pair, all[pair],
                             objective_.kind == config::ObjectiveKind::kKto)) +
              "\n";
  }
  return rows;
}

}  // namespace

std::string score_preferences(const EvalPreferencesOptions& o, const EvalDataOptions& rows,
                              checkpoint::CheckpointReader& reader, const eval::ModelOptions& model,
                              comm::World& world, bool quiet, Tree& results) {
  if (o.files.empty()) return "";
  return PreferenceScorer(o, rows, reader, model, world).run(quiet, results);
}

}  // namespace tessera::cli
