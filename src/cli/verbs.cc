// The table of all commands, the help that is printed from it, and the selection of a command by
// name.
#include "cli/verbs.h"

#include <algorithm>
#include <array>

#include "base/config.h"

namespace tessera::cli {
namespace {

constexpr const char* kText = "Text and data";
constexpr const char* kTraining = "Training";
constexpr const char* kModels = "Trained models";
constexpr const char* kMachine = "This machine";

const std::array kVerbs{
    Verb{"tokenizer", kText, "train a tokenizer, encode text, inspect tokenizer files",
         "tessera tokenizer train --out t.json --vocabulary 8192 book.txt", verb_tokenizer},
    Verb{"data", kText, "build datasets from text, inspect them, trace the source of a sample",
         "tessera data build --tokenizer t.json --out corpus/train book.txt", verb_data},
    Verb{"train", kTraining, "train the model described by a run file, or resume the run",
         "tessera train run.yaml batch.micro=8", verb_train},
    Verb{"finetune", kTraining, "fine-tune a model on conversations, without a run file",
         "tessera finetune --from hf-folder --data chat.jsonl --out runs/tuned", verb_finetune},
    Verb{"launch", kTraining, "start the ranks of a run, monitor them, restart after a failure",
         "tessera launch run.yaml -n 8 --restart 3", verb_launch},
    Verb{"verify", kTraining, "compare some steps of a run with the same steps on one rank",
         "tessera verify run.yaml layout.data=2 layout.tensor=2", verb_verify},
    Verb{"check-coordinates", kTraining,
         "compare how much activations of several widths change (muP)",
         "tessera check-coordinates run.yaml --widths 64,128,256", verb_check_coordinates},
    Verb{"submit", kTraining, "write the script of a SLURM job for a run, and submit it",
         "tessera submit run.yaml --nodes 2 --time 4:00:00", verb_submit},
    Verb{"compile", kTraining, "show the program of a training step: blocks, calls, memory, cost",
         "tessera compile run.yaml --print", verb_compile},
    Verb{"plan", kTraining, "predict time, memory and cost of a run on any machine",
         "tessera plan run.yaml --cluster a100-80gb", verb_plan},
    Verb{"tune", kTraining, "find the fastest settings of a run: speed, not loss (see sweep)",
         "tessera tune run.yaml --trials 20", verb_tune},
    Verb{"sweep", kTraining, "find the keys with the smallest loss: learning rates, batches, …",
         "tessera sweep run.yaml optimizer.learning_rate=1e-4..1e-2", verb_sweep},
    Verb{"watch", kTraining, "show a run while it trains: loss curve, rates, ranks",
         "tessera watch runs/pythia-70m", verb_watch},
    Verb{"report", kTraining, "write an HTML page about runs: curves, speed, memory, events",
         "tessera report runs/pythia-70m --out report.html", verb_report},
    Verb{"config", kTraining, "explain run-file keys, print a run file with all values resolved",
         "tessera config explain optimizer.learning_rate", verb_config},
    Verb{"eval", kModels, "compute perplexity on datasets, evaluate tasks",
         "tessera eval runs/pythia-70m corpus/validation", verb_eval},
    Verb{"generate", kModels, "continue texts, in batches",
         "tessera generate runs/pythia-70m --prompt 'The city' --max-tokens 100", verb_generate},
    Verb{"chat", kModels, "talk to a model in the terminal",
         "tessera chat runs/tuned --system 'Answer briefly.'", verb_chat},
    Verb{"serve", kModels, "serve a model over HTTP with OpenAI's API",
         "tessera serve runs/tuned --port 8000", verb_serve},
    Verb{"checkpoint", kModels, "list, verify, compare, import and export checkpoints",
         "tessera checkpoint export runs/pythia-70m --to folder", verb_checkpoint},
    Verb{"doctor", kMachine, "report what this machine has, what is slow or missing",
         "tessera doctor", verb_doctor},
    Verb{"bench", kMachine, "measure this machine and write hardware.yaml",
         "tessera bench --out hardware.yaml", verb_bench},
};

// Lists the commands by group, with the summaries in one column, and the first examples.
std::string list_of(const std::string& path, std::span<const Verb> among) {
  std::string out, group;
  size_t width = 0;
  for (const Verb& v : among) width = std::max(width, std::string(v.name).size());
  for (const Verb& v : among) {
    if (group != v.group) out += fmt::format("\n{}:\n", v.group);
    group = v.group;
    out += fmt::format("  {:{}}  {}\n", v.name, width, v.summary);
  }
  const std::string verb = path.empty() ? "COMMAND" : path + " COMMAND";
  out += fmt::format("\nExamples:\n");
  for (const Verb& v : among.first(std::min<size_t>(among.size(), 3)))
    out += fmt::format("  {}\n", v.example);
  return out + fmt::format("\nHelp for a command: tessera {} --help\n", verb);
}

// A name that people try, or that other programs have, for a command.
struct OtherName {
  std::string_view name, answer;
};

constexpr std::string_view
    kFineTune =
        "`tessera finetune` fine-tunes a model on conversations, and `tessera train` does if the "
        "run file names the checkpoint to start from (checkpoint.from); see docs/optimizers.md, "
        "Fine-tuning.",
    kSweep =
        "`tessera sweep` finds the keys with the smallest loss, `tessera tune` the fastest "
        "settings; see docs/sweeps.md.",
    kTrain = "Did you mean 'tessera train'?", kGenerate = "Did you mean 'tessera generate'?",
    kImport = "Did you mean 'tessera checkpoint import'?",
    kExport = "Did you mean 'tessera checkpoint export'?";

constexpr OtherName kOtherNames[] = {
    {"fine-tune", kFineTune},    {"fine_tune", kFineTune}, {"finetuning", kFineTune},
    {"sft", kFineTune},          {"lora", kFineTune},      {"optuna", kSweep},
    {"wandb", kSweep},           {"hpo", kSweep},          {"hparams", kSweep},
    {"hyperparameters", kSweep}, {"optimize", kSweep},     {"study", kSweep},
    {"agent", kSweep},           {"search", kSweep},       {"pretrain", kTrain},
    {"pre-train", kTrain},       {"infer", kGenerate},     {"inference", kGenerate},
    {"import", kImport},         {"convert", kImport},     {"export", kExport},
};

// Returns what to use instead of that name; empty if it is not in the table.
std::string_view answer_of(std::string_view name) {
  const auto* const at = std::ranges::find(kOtherNames, name, &OtherName::name);
  return at == std::end(kOtherNames) ? std::string_view() : at->answer;
}

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

const char* version() { return TESSERA_VERSION; }

std::string version_and_commit() {
  const std::string_view own = commit();
  return own.empty() ? version() : fmt::format("{} (commit {})", version(), own);
}

int run_verb(const std::string& path, std::span<const Verb> among, Args args) {
  const std::string before = path.empty() ? "" : path + ": ";
  const std::string command = path.empty() ? "tessera" : "tessera " + path;
  if (args.empty()) throw UsageError("{}a command is missing.\n{}", before, list_of(path, among));
  if (args[0] == "help" && args.size() > 1) {  // `help train` is `train --help`
    std::vector<std::string> asked(args.begin() + 1, args.end());
    asked.emplace_back("--help");
    return run_verb(path, among, asked);
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    fmt::print("Usage: {} COMMAND …\n{}", command, list_of(path, among));
    return 0;
  }
  // There are few commands, so a linear search suffices. Their names are collected for the
  // suggestion.
  std::vector<std::string> names;
  for (const Verb& v : among) {
    if (args[0] == v.name) return v.run(args.subspan(1));
    names.emplace_back(v.name);
  }
  if (const std::string_view answer = answer_of(args[0]); path.empty() && !answer.empty())
    throw UsageError("there is no command '{}'. {}", args[0], answer);
  const std::string guess = nearest(args[0], names);
  throw UsageError("{}there is no command '{}'. {}", before, args[0],
                   guess.empty() ? fmt::format("List all commands: {} --help", command)
                                 : fmt::format("Did you mean '{} {}'?", command, guess));
}

}  // namespace tessera::cli
