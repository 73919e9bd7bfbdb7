// tessera config explain KEY | print RUN
//
// Both use the field lists (`fields()`) of the configuration structs, which the parser of run files
// uses too, so the documentation always agrees with the program. docs/configuration.md is the
// output of `explain --markdown`.
#include "base/config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "base/renamed_keys.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/index.h"
#include "checkpoint/stored_model.h"
#include "cli/run_file.h"
#include "cli/verbs.h"
#include "config/foreign_keys.h"
#include "data/tokenizer.h"
#include "model/family.h"
#include "model/presets.h"
#include "train/load_run.h"
#include "train/run_programs.h"

namespace tessera::cli {
namespace {

std::string default_of(const Field& f) {
  const Tree value = f.write();
  const std::string* s = value.as_string();
  return s != nullptr && !s->empty() ? *s : to_json(value);
}

// Returns the type with its range as text: "integer", "number in [0, 1]", "integer of 1 or more".
std::string type_of(const Field& f) {
  const Range& r = f.range;
  if (!r.bounded()) return f.type;
  const std::string values = std::isinf(r.most) ? fmt::format("of {:g} or more", r.least)
                                                : fmt::format("in [{:g}, {:g}]", r.least, r.most);
  return fmt::format("{} {}{}", f.type, values, r.or_zero ? ", or 0" : "");
}

// Throws Error for a key or section that does not exist. The message has the key of this program
// for a name of another one, or the nearest key or section; case does not matter.
[[noreturn]] void reject_key(const std::vector<Field>& fields, const std::string& key) {
  const bool is_renamed = !renamed_path(key).empty();
  const std::string advice = config::foreign_key_advice(key);
  if (!is_renamed && !advice.empty()) throw Error("unknown key '{}' {}", key, advice);
  std::vector<std::string> names;
  for (const Field& f : fields) {
    names.push_back(f.path);
    for (size_t dot = f.path.find('.'); dot != f.path.npos; dot = f.path.find('.', dot + 1))
      names.push_back(f.path.substr(0, dot));
  }
  std::string lower = key;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string guess = is_renamed ? "" : nearest(lower, names);
  if (!guess.empty()) throw Error("unknown key '{}'. Did you mean '{}'?", key, guess);
  find_field(fields, key, "");
  CHECK(false, "'{}' is a key", key);
}

// Returns all fields, those of a section, or a single one. If there is none, throws Error as
// reject_key() does.
std::vector<Field> selected(const std::vector<Field>& fields, const std::string& key) {
  std::vector<Field> out;
  for (const Field& f : fields)
    if (key.empty() || f.path == key || f.path.starts_with(key + '.')) out.push_back(f);
  if (out.empty()) reject_key(fields, key);
  return out;
}

Tree as_tree(const std::vector<Field>& fields) {
  Tree list = Tree::list();
  for (const Field& f : fields) {
    Tree t;
    t.set("key", Tree(f.path));
    t.set("type", Tree(type_of(f)));
    t.set("default", f.write());
    t.set("help", Tree(f.help));
    list.push(std::move(t));
  }
  Tree root;
  root.set("keys", std::move(list));
  return root;
}

std::string in_cell(std::string s) {  // escapes '|', which would end a table cell
  for (size_t i = 0; (i = s.find('|', i)) != std::string::npos; i += 2) s.insert(i, 1, '\\');
  return s;
}

constexpr const char* kIntroduction =
    "# The run file\n\n"
    "<!-- Written by scripts/generate_docs.sh from the fields in the source. Do not edit. -->\n\n"
    "One YAML file describes a run. Any key can be overridden on the command line:\n"
    "`tessera train run.yaml batch.micro=8`. An unknown key is an error that names the nearest\n"
    "known one. `model.preset` is applied first; keys of `model` then override its values.\n"
    "`tessera config explain KEY` prints the contents of these tables, and `tessera config print\n"
    "RUN` shows a run file with all values resolved. Relative paths are relative to the current\n"
    "folder, not to the folder of the run file.\n\n"
    "```yaml\n"
    "run: { name: pythia-70m, seed: 1234 }\n"
    "model: { preset: pythia-70m }\n"
    "data: { tokenizer: t.json, train: [corpus/train], validation: [corpus/validation] }\n"
    "batch: { global: 256, micro: 4 }\n"
    "optimizer: { learning_rate: 1.0e-3 }\n"
    "schedule: { kind: cosine, steps: 1000, warmup_steps: 10, min_lr_ratio: 0.1 }\n"
    "precision: auto\n"
    "```\n";

// Returns the names of the presets of a family, separated by commas.
std::string presets_of(const model::ModelFamily& family) {
  std::string text;
  for (const model::Preset& p : family.presets)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", p.name);
  return text;
}

// Returns the defaults of a family that differ from those of ModelConfig, as "key value, …".
std::string defaults_of(const model::ModelFamily& family) {
  model::ModelConfig own;
  model::apply_family(family.family, own);
  std::string text;
  for (const Change& c : differences(to_tree(model::ModelConfig()), to_tree(own)))
    if (c.path != "family")
      text += fmt::format("{}`{}: {}`", text.empty() ? "" : ", ", c.path, c.after);
  return text.empty() ? "as in the table" : text;
}

void print_model_notes() {
  fmt::print(
      "\nThe defaults in the table are those of `family: neox`. Each family has its own defaults, "
      "which\n`model.family` or a preset sets:\n\n| family | defaults | presets "
      "|\n|---|---|---|\n");
  for (const model::ModelFamily* f : model::all_families())
    fmt::print("| `{}` | {} | {} |\n", name_of_entry(f->family), defaults_of(*f), presets_of(*f));
}

void print_markdown(const std::vector<Field>& fields) {
  fmt::print("{}", kIntroduction);
  std::string section = "-";
  for (const Field& f : fields) {
    const size_t dot = f.path.find('.');
    const std::string now = dot == std::string::npos ? "" : f.path.substr(0, dot);
    if (now != section && section == "model") print_model_notes();
    if (now != section)
      fmt::print("\n## {}\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
                 now.empty() ? f.path : now);
    section = now;
    fmt::print("| `{}` | {} | `{}` | {} |\n", f.path, in_cell(type_of(f)), default_of(f),
               in_cell(f.help));
  }
}

int explain(Args args) {
  std::string key;
  bool json = false, markdown = false;
  Arguments arguments("config explain", "Explain the keys of a run file.",
                      "tessera config explain optimizer.learning_rate");
  arguments.optional(key, "KEY", "a key or a section such as optimizer; without it, all keys");
  arguments.flag(markdown, "--markdown", "print the tables of docs/configuration.md");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  config::RunConfig config;
  const std::vector<Field> fields = selected(fields_of(config), key);
  if (json) {
    fmt::print("{}\n", to_json(as_tree(fields)));
  } else if (markdown) {
    print_markdown(fields);
  } else {
    for (const Field& f : fields) {
      fmt::print("{}\n    {}\n    {}; default {}\n", f.path, f.help, type_of(f), default_of(f));
      if (f.path != "model.preset") continue;
      for (const model::ModelFamily* family : model::all_families())
        fmt::print("    {}: {}\n", name_of_entry(family->family), presets_of(*family));
    }
  }
  return 0;
}

// Returns the configuration with the values that depend on the tokenizer and this machine. A value
// that cannot be resolved is unchanged, with a note on standard error.
config::RunConfig resolved(config::RunConfig config) {
  try {
    train::resolve_sizes(config);
  } catch (const Error& e) {
    fmt::print(stderr, "note: model.vocabulary = 0 (the tokenizer's) is not resolved: {}\n",
               e.what());
  }
  train::resolve_machine(config, read_cpu_features());
  // With one data-parallel and context-parallel rank there is nothing to shard. The run itself
  // keeps the key, so that it can be resumed on more ranks.
  if (config.layout.data * config.layout.context == 1) config.layout.zero = 0;
  return config;
}

// Returns what a run that starts from the checkpoint reads from it in addition to the model: the
// tokenizer, the tokens that end a text, and the chat template.
Tree text_settings(const checkpoint::CheckpointReader& reader) {
  const checkpoint::CheckpointHeader& header = reader.header();
  Tree t = Tree::object();
  if (header.tokenizer.empty()) return t;
  const std::string name = checkpoint::tokenizer_file_name(header.tokenizer);
  const auto tokenizer = data::make_tokenizer(header.tokenizer, name);
  t.set("tokenizer", Tree(fmt::format("{}, {} tokens", name, tokenizer->vocabulary_size())));
  std::vector<int32_t> ends = checkpoint::hf_text_rules(header).stops;
  if (ends.empty() && tokenizer->end_of_text()) ends.push_back(*tokenizer->end_of_text());
  std::string named;
  for (const int32_t id : ends)
    if (id < tokenizer->vocabulary_size())
      named += fmt::format("{}{} ({})", named.empty() ? "" : ", ", tokenizer->token_bytes(id), id);
  t.set("end_tokens", Tree(named));
  t.set("chat_template", Tree(checkpoint::chat_template_of(header)));
  return t;
}

// Returns the text settings as comments of a run file.
std::string as_comments(const Tree& settings) {
  std::string text;
  for (const auto& [key, value] : *settings.as_members()) {
    std::string lines = *value.as_string();
    if (lines.empty()) lines = "none";
    const bool many = lines.find('\n') != lines.npos;
    for (size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 5)
      lines.replace(at, 1, "\n#   ");
    text += fmt::format("# {}:{}{}\n", key, many ? "\n#   " : " ", lines);
  }
  return printable(text);
}

int print(Args args) {
  std::string run;
  std::vector<std::string> overrides;
  bool json = false, small = false;
  Arguments arguments("config print",
                      "Check a run file and print it with all values resolved, or print the model "
                      "section of a checkpoint or run directory.",
                      "tessera config print run.yaml batch.micro=8");
  arguments.required(run, "RUN|CHECKPOINT",
                     "a run file; or a run directory, a checkpoint or a Hugging Face folder");
  arguments.many(overrides, "key=value", "overrides of run-file keys");
  arguments.flag(small, "--small", "the scaled-down run of `tessera train --small`");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  const bool folder = std::filesystem::is_directory(run);
  if (folder && (small || !overrides.empty()))
    throw UsageError("config print: {} is a folder, and key=value and --small need a run file.",
                     run);
  Tree tree, text = Tree::object();
  if (folder) {
    const checkpoint::CheckpointReader reader(checkpoint::resolve_checkpoint(run));
    tree.set("model", to_tree(checkpoint::stored_model(reader)));
    text = text_settings(reader);
    const std::string note =
        train::word_split_warning(reader.header().tokenizer, run, checkpoint::stored_model(reader));
    if (!note.empty()) fmt::print(stderr, "note: {}\n", note);
  } else {
    tree = to_tree(resolved(open_run(run, overrides, small)));
  }
  // The text settings are not keys of a run file, so they are comments in one.
  if (json && folder) tree.set("text", text);
  fmt::print("{}{}", json ? to_json(tree) + "\n" : to_yaml(tree), json ? "" : as_comments(text));
  return 0;
}

constexpr const char* kGroup = "Run files";
const Verb kVerbs[] = {
    {"explain", kGroup, "explain keys, with their types and defaults",
     "tessera config explain optimizer.learning_rate", explain},
    {"print", kGroup, "print a run file with all values resolved, or the model of a checkpoint",
     "tessera config print run.yaml", print},
};

}  // namespace

int verb_config(Args args) { return run_verb("config", kVerbs, args); }

}  // namespace tessera::cli
