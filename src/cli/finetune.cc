// tessera finetune: writes a run file for chat data and a model, and trains it.
//
// The run file has what the two determine: the length of sequences from the model's context, the
// number of steps from the number of packed rows. Everything else is a default, or a key=value of
// the command line, which the file keeps.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "config/run_config.h"
#include "data/tokenizer.h"
#include "train/load_run.h"
#include "train/run_data.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLongestRow = 2048, kMostRows = 16;  // tokens per row, rows per step
constexpr int64_t kUnknownSteps = 1'000'000;           // before the rows are counted
constexpr double kMostEpochs = 1e6;
// Peak learning rates. Those of preference objectives are TRL's; adapters get ten times as much.
constexpr double kRate = 2e-5, kAdapterRate = 2e-4;
constexpr double kPreferenceRate = 1e-6, kPreferenceAdapterRate = 1e-5;

struct FineTuning {
  std::string from, out;
  std::vector<std::string> data, validation;
  double epochs = 3, learning_rate = 0;
  int64_t lora = 0, sequence_length = 0;
};

Tree texts(const std::vector<std::string>& all) {
  Tree list = Tree::list();
  for (const std::string& s : all) list.push(Tree(s));
  return list;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

// Returns the date that an earlier call wrote to the run file, so that the same command resumes;
// otherwise today's date.
std::string date_for(const Path& file) {
  if (!std::filesystem::exists(file)) return today();
  const Tree tree = parse_yaml(read_file(file), file.string());
  const Tree* data = tree.as_members() != nullptr ? tree.find("data") : nullptr;
  const Tree* date = data != nullptr ? data->find("template_date") : nullptr;
  return date != nullptr && date->as_string() != nullptr ? *date->as_string() : today();
}

// Returns the run file before the rows are counted.
Tree run_file(const FineTuning& f, const Path& file) {
  Tree run, data, checkpoint, optimizer, schedule, batch, root;
  if (Path(f.out).has_filename()) run.set("name", Tree(Path(f.out).filename().string()));
  run.set("directory", Tree(f.out));
  checkpoint.set("from", Tree(f.from));
  checkpoint.set("keep", Tree(int64_t{1}));
  data.set("instructions", texts(f.data));
  if (!f.validation.empty()) data.set("validation", texts(f.validation));
  data.set("sequence_length", Tree(f.sequence_length));
  data.set("long_examples", Tree(std::string("skip")));
  data.set("template_date", Tree(date_for(file)));
  batch.set("global", Tree(kMostRows));
  batch.set("micro", Tree(int64_t{1}));
  if (f.learning_rate > 0) optimizer.set("learning_rate", Tree(f.learning_rate));
  optimizer.set("weight_decay", Tree(0.0));
  schedule.set("kind", Tree(std::string("cosine")));
  schedule.set("steps", Tree(kUnknownSteps));
  root.set("run", std::move(run));
  root.set("checkpoint", std::move(checkpoint));
  root.set("data", std::move(data));
  root.set("batch", std::move(batch));
  root.set("optimizer", std::move(optimizer));
  if (f.lora > 0) {
    Tree lora;
    lora.set("rank", Tree(f.lora));
    lora.set("alpha", Tree(2.0 * static_cast<double>(f.lora)));
    root.set("lora", std::move(lora));
  }
  root.set("schedule", std::move(schedule));
  return root;
}

// Returns the peak learning rate of a run without --learning-rate. The head of a reward model
// starts at random, so its rate is that of fine-tuning on conversations.
double default_rate(const config::RunConfig& config) {
  using Kind = config::ObjectiveKind;
  const Kind kind = config.objective.kind;
  const bool adapters = config.lora.rank > 0;
  if (kind == Kind::kSft || kind == Kind::kReward) return adapters ? kAdapterRate : kRate;
  return adapters ? kPreferenceAdapterRate : kPreferenceRate;
}

void set_in(Tree& root, const char* section, const char* key, auto value) {
  Tree own = *root.find(section);
  own.set(key, Tree(value));
  root.set(section, std::move(own));
}

bool is_on_command_line(const config::RunConfig& config, const std::string& path) {
  const auto place = config.places.find(path);
  return place != config.places.end() && place->second.starts_with("command line");
}

// Sets batch.global and batch.micro, and returns batch.global: a multiple of the rows that the
// ranks process at the same time, at most kMostRows, with at least four steps per epoch if there
// are enough rows. Does not change values of the command line.
int64_t set_batch(Tree& root, const config::RunConfig& config, int64_t rows) {
  const bool has_micro = is_on_command_line(config, "batch.micro");
  // Values out of range are reported by the validation of the whole file.
  const auto in_range = [](int64_t x) { return std::clamp<int64_t>(x, 1, 1 << 20); };
  const int64_t ranks = in_range(config.layout.data),
                together = ranks * (has_micro ? in_range(config.batch.micro) : 1);
  int64_t multiple = std::max<int64_t>(kMostRows / together, 1);
  while (multiple > 1 && 4 * multiple * together > rows) multiple /= 2;
  const int64_t global =
      is_on_command_line(config, "batch.global") ? config.batch.global : multiple * together;
  set_in(root, "batch", "global", global);
  if (!has_micro) set_in(root, "batch", "micro", std::gcd<int64_t>(global / ranks, 4));
  return global;
}

// Sets the rows per step and the number of steps for `rows` rows per epoch.
void set_steps(Tree& root, const FineTuning& f, const config::RunConfig& config, int64_t rows) {
  const auto global = static_cast<double>(set_batch(root, config, rows));
  if (is_on_command_line(config, "schedule.tokens"))
    throw UsageError("finetune: schedule.tokens is not supported. Use --epochs or schedule.steps.");
  int64_t steps = config.schedule.steps;
  if (!is_on_command_line(config, "schedule.steps")) {
    steps = std::max<int64_t>(std::llround(f.epochs * static_cast<double>(rows) / global), 1);
    set_in(root, "schedule", "steps", steps);
  }
  set_in(root, "schedule", "warmup_steps", steps / 20);
}

// Throws UsageError for an option outside its range.
void check_options(const FineTuning& f, const Arguments& given) {
  if (!(f.epochs > 0 && f.epochs <= kMostEpochs))
    throw UsageError("--epochs is {}, expected a number above 0 and at most {}", f.epochs,
                     kMostEpochs);
  if (f.lora < 0) throw UsageError("--lora is {}, expected a rank, or 0 for all weights", f.lora);
  if (given.given("--learning-rate") && !(f.learning_rate > 0))
    throw UsageError("--learning-rate is {}, expected a number above 0", f.learning_rate);
  if (f.sequence_length < 0)
    throw UsageError("--sequence-length is {}, expected a number above 0", f.sequence_length);
}

// Adds the members of `more` to `root`, where they replace those with the same keys.
void merge(Tree& root, const Tree& more) {
  for (const auto& [key, value] : *more.as_members()) {
    const Tree* own = root.find(key);
    Tree merged = value;
    if (own != nullptr && own->as_members() != nullptr && value.as_members() != nullptr) {
      merged = *own;
      merge(merged, value);
    }
    root.set(key, std::move(merged));
  }
}

// Adds the keys of the command line, so that the run file alone resumes the run.
void add_given_keys(Tree& root, config::RunConfig& config) {
  std::vector<Field> given = fields_of(config);
  std::erase_if(given, [&](const Field& f) { return !is_on_command_line(config, f.path); });
  merge(root, write_fields(given));
}

// Returns true if a run in the directory has taken a step or saved a checkpoint.
bool has_begun(const Path& directory) {
  return std::filesystem::exists(directory / "metrics.jsonl") ||
         std::filesystem::exists(directory / "checkpoints");
}

// Writes the run file, or checks that it is the same as that of an earlier call, which is resumed.
// The file of a call that failed before its first step is replaced.
void put_run_file(const Path& file, const std::string& text) {
  if (!std::filesystem::exists(file) || !has_begun(file.parent_path())) {
    std::filesystem::create_directories(file.parent_path());
    return write_file(file, text);
  }
  if (read_file(file) != text)
    throw Error(
        "{}: a run began with other settings than these, or with other data (the number of steps "
        "follows from the data). Resume it with `tessera train {}`, or choose another --out.",
        file.string(), file.string());
}

}  // namespace

int verb_finetune(Args args) {
  FineTuning f;
  std::vector<std::string> overrides;
  Arguments arguments(
      "finetune",
      "Fine-tune a model on conversations, or on pairs of answers with objective.kind=dpo (ipo, "
      "orpo, kto, simpo, reward). Writes OUT/finetune.yaml, a run file, and trains it; the same "
      "command resumes. A step has 16 rows, or fewer so that an epoch has about four steps. "
      "Examples that are longer than a row are skipped (data.long_examples=skip).",
      "tessera finetune --from hf-folder --data chat.jsonl --out runs/tuned");
  arguments.option(f.from, "--from", "DIR", "the model: a Hugging Face folder or a checkpoint",
                   true);
  arguments.option(f.data, "--data", "FILE", "conversations or pairs of answers (repeatable)",
                   true);
  arguments.option(f.out, "--out", "DIR", "the run directory", true);
  arguments.option(f.validation, "--validation", "FILE",
                   "data of the same form to measure the loss on");
  arguments.option(f.epochs, "--epochs", "N", "passes over the data");
  arguments.option(f.lora, "--lora", "RANK", "train LoRA adapters of this rank; 0: all weights");
  arguments.option(
      f.learning_rate, "--learning-rate", "X",
      "peak learning rate; 0: 2e-5, 1e-6 with dpo, ipo, orpo, kto and simpo, ten times "
      "that for adapters");
  arguments.option(f.sequence_length, "--sequence-length", "T",
                   "tokens per row; 0: the model's context, at most 2048");
  arguments.many(overrides, "key=value", "overrides of run-file keys");
  if (!arguments.parse(args)) return 0;
  check_options(f, arguments);
  const Path file = Path(f.out) / "finetune.yaml";
  const std::string source = file.string();
  if (f.sequence_length == 0)
    f.sequence_length = std::min(
        train::load_run({run_file(f, file), source}, overrides).model.context, kLongestRow);
  Tree tree = run_file(f, file);
  config::RunConfig config = train::load_run({tree, source}, overrides);
  if (f.learning_rate == 0) set_in(tree, "optimizer", "learning_rate", default_rate(config));
  set_batch(tree, config, kMostRows);
  config::validate(train::load_run({tree, source}, overrides));
  const auto tokenizer = data::load_tokenizer(train::tokenizer_of_run(config));
  const train::TrainingRowReader rows(config, tokenizer->vocabulary_size(), *tokenizer);
  const std::optional<data::InstructionCounts> counts = rows.counts();
  if (!counts)
    throw UsageError("finetune: data.instructions is empty, expected the files of --data");
  set_steps(tree, f, config, counts->rows);
  add_given_keys(tree, config);
  config::validate(train::load_run({tree, source}, overrides));
  put_run_file(file,
               "# Written by `tessera finetune`. `tessera train` with this file resumes it.\n" +
                   to_yaml(tree));
  show("run file  {}\n", source);
  return verb_train({&source, 1});
}

}  // namespace tessera::cli
