// tessera checkpoint ls | verify | diff | average | merge | import | export: lists, checks,
// compares and converts checkpoints. Everything that reads or writes files is in src/checkpoint.
#include <chrono>
#include <cstdio>
#include <optional>

#include "base/config.h"
#include "base/real.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/compare.h"
#include "checkpoint/finite.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_source.h"
#include "checkpoint/index.h"
#include "checkpoint/stored_model.h"
#include "cli/checkpoint_adapter.h"
#include "cli/checkpoint_file.h"
#include "cli/show.h"
#include "cli/status_line.h"
#include "cli/verbs.h"
#include "data/sentencepiece_model.h"
#include "model/family.h"
#include "train/load_run.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

std::string mebibytes(int64_t bytes) { return fmt::format("{:.1f} MiB", ratio(bytes, 1 << 20)); }

// Inserts a comma before each group of three digits, from the right.
std::string with_commas(int64_t n) {
  std::string s = std::to_string(n);
  for (auto at = std::ssize(s) - 3; at > 0; at -= 3) s.insert(at, 1, ',');
  return s;
}

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Returns the checkpoint at that path, or all checkpoints of a run directory or its checkpoints
// folder. Damaged checkpoints are returned too, with the reason in `broken`.
std::vector<checkpoint::FoundCheckpoint> all_at(const Path& argument) {
  std::error_code error;
  if (fs::exists(argument / checkpoint::kIndexFile, error)) {
    // A folder with an index is a checkpoint itself.
    checkpoint::FoundCheckpoint one{argument, 0, 0, ""};
    for (const auto& entry : fs::directory_iterator(argument, error))
      one.bytes += entry.is_regular_file() ? entry.file_size() : 0;
    try {
      one.step = checkpoint::CheckpointReader(argument).header().step;
    } catch (const Error& e) {
      one.broken = e.what();
    }
    return {one};
  }
  if (!fs::is_directory(argument, error))
    throw Error(
        "{}: there is no such folder. Expected a run directory, its checkpoints folder or a "
        "checkpoint.",
        argument.string());
  const Path inside = argument / "checkpoints";
  return checkpoint::list_checkpoints(fs::is_directory(inside, error) ? inside : argument);
}

Tree as_tree(const checkpoint::FoundCheckpoint& c) {
  Tree t;
  t.set("path", Tree(c.path.string()));
  t.set("step", Tree(c.step));
  t.set("bytes", Tree(c.bytes));
  t.set("broken", c.broken.empty() ? Tree() : Tree(c.broken));
  return t;
}

void print_tensors(const checkpoint::CheckpointReader& reader) {
  for (const checkpoint::StoredTensor& t : reader.tensors())
    show("  {:5} {:24} {}{}\n", name_of(t.dtype), to_string(t.shape), t.name,
         t.pieces.size() > 1 ? fmt::format("  ({} pieces)", t.pieces.size()) : "");
}

// Returns nothing if a run that is in progress has removed the checkpoint since it was listed.
std::optional<checkpoint::CheckpointReader> open_if_there(const Path& path) {
  try {
    return std::optional<checkpoint::CheckpointReader>(std::in_place, path);
  } catch (const Error&) {
    if (fs::exists(path / checkpoint::kIndexFile)) throw;
    return std::nullopt;
  }
}

// Lists checkpoints with their headers. One that cannot be read is listed with the reason, so that
// a single damaged checkpoint does not hide the others.
int list(Args args) {
  std::string where;
  bool json = false, tensors = false;
  Arguments arguments("checkpoint ls", "List the checkpoints of a run, or the tensors of one.",
                      "tessera checkpoint ls runs/pythia-70m");
  arguments.required(where, "RUN", "a run directory, a checkpoints folder or a checkpoint");
  arguments.flag(tensors, "--tensors", "list the tensors of each, with dtype and shape");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  Tree all = Tree::list();
  for (const checkpoint::FoundCheckpoint& c : all_at(where)) {
    const auto reader = c.broken.empty() ? open_if_there(c.path) : std::nullopt;
    if (c.broken.empty() && !reader) continue;
    Tree t = as_tree(c);
    std::string about = c.broken;
    if (reader) {
      const checkpoint::CheckpointHeader& h = reader->header();
      t.set("tokens", Tree(h.tokens));
      t.set("version", Tree(h.version));
      t.set("model", h.model);
      t.set("ranks", Tree(h.ranks));
      t.set("tensors", Tree(std::ssize(reader->tensors())));
      about = fmt::format("{} tokens  {}  {} tensors  saved by {} on {} rank{}",
                          with_commas(h.tokens), mebibytes(c.bytes), reader->tensors().size(),
                          h.version, h.ranks, h.ranks == 1 ? "" : "s");
    }
    if (!json) show("step {:>9}  {}\n", with_commas(c.step), about);
    if (!json && tensors && reader) print_tensors(*reader);
    all.push(std::move(t));
  }
  if (!json && all.as_list()->empty()) show("{}: no checkpoints\n", where);
  Tree root;
  root.set("checkpoints", std::move(all));
  if (json) fmt::print("{}\n", to_json(root));
  return 0;
}

// Checks every byte of a checkpoint, then every number. Sets `broken` to the error, if any, and
// returns the exit code for this checkpoint.
int verify_one(checkpoint::FoundCheckpoint& c, int64_t& bytes) {
  try {
    if (!c.broken.empty()) return 1;
    checkpoint::CheckpointReader reader(c.path);
    bytes = reader.verify();
    checkpoint::require_finite(reader);
    return 0;
  } catch (const NumericError& error) {
    c.broken = error.what();
    return kNumericExitCode;
  } catch (const Error& error) {
    c.broken = error.what();
    return 1;
  }
}

// Verifies each checkpoint separately and returns the worst result as the exit code.
int verify(Args args) {
  std::string where;
  bool json = false;
  Arguments arguments("checkpoint verify",
                      "Read every byte, compare the checksums, and look for NaN and infinity.",
                      "tessera checkpoint verify runs/pythia-70m");
  arguments.required(where, "RUN", "a run directory, a checkpoints folder or a checkpoint");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  std::vector<checkpoint::FoundCheckpoint> found = all_at(where);
  if (found.empty()) throw Error("{}: no checkpoints to verify", where);
  Tree all = Tree::list();
  int broken = 0, damaged = 0;
  for (checkpoint::FoundCheckpoint& c : found) {
    const Clock clock;
    int64_t bytes = 0;
    const int code = verify_one(c, bytes);
    broken += code == 0 ? 0 : 1;
    damaged += code == 1 ? 1 : 0;
    if (!json)
      show("step {:>9}  {}\n", with_commas(c.step),
           c.broken.empty()
               ? fmt::format("intact: {} read in {:.1f} s", mebibytes(bytes), clock.seconds())
               : "BROKEN  " + c.broken);
    Tree t = as_tree(c);
    t.set("verified_bytes", Tree(bytes));
    all.push(std::move(t));
  }
  Tree root;
  root.set("checkpoints", std::move(all));
  root.set("broken", Tree(int64_t{broken}));
  if (json) fmt::print("{}\n", to_json(root));
  // Damage takes precedence, because damaged bytes may be restored from a copy, whereas the run
  // itself saved the NaN.
  if (damaged > 0) return 1;
  return broken > 0 ? kNumericExitCode : 0;
}

// Returns the fields of a header as one tree, so that differences() can compare them key by key.
Tree header_tree(const checkpoint::CheckpointHeader& h) {
  Tree t;
  t.set("step", Tree(h.step));
  t.set("tokens", Tree(h.tokens));
  t.set("version", Tree(h.version));
  t.set("tokenizer_bytes", Tree(std::ssize(h.tokenizer)));
  t.set("model", h.model);
  t.set("config", h.config);
  t.set("state", h.state);
  return t;
}

std::string in_words(const checkpoint::TensorDifference& d) {
  if (!d.what.empty()) return d.what;
  std::string text = d.types.empty() ? "" : d.types + ", ";
  text += with_commas(d.elements) + (d.elements == 1 ? " element differs" : " elements differ");
  if (d.largest > 0)  // else codes, or -0 and 0
    text += fmt::format(" by at most {:.3g}; the norm of the difference is {:.3g} times the norm",
                        d.largest, d.relative);
  return text;
}

Tree as_tree(const checkpoint::TensorDifference& d) {
  Tree t;
  t.set("name", Tree(d.name));
  t.set("what", Tree(d.what));
  t.set("elements", Tree(d.elements));
  t.set("largest", Tree(d.largest));
  t.set("relative", Tree(d.relative));
  t.set("types", Tree(d.types));
  return t;
}

// Compares headers key by key and tensors element by element. Tensors are read by name, so their
// order and their sharding do not matter.
int diff(Args args) {
  std::string first, second;
  bool json = false;
  Arguments arguments("checkpoint diff",
                      "Compare two checkpoints. The exit code is 1 if they differ.",
                      "tessera checkpoint diff runs/a/checkpoints/100 runs/b/checkpoints/100");
  arguments.required(first, "CHECKPOINT", "the first checkpoint");
  arguments.required(second, "CHECKPOINT", "the second checkpoint");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  checkpoint::CheckpointReader a(choose_checkpoint(first)), b(choose_checkpoint(second));
  const std::vector<Change> header = differences(header_tree(a.header()), header_tree(b.header()));
  const std::vector<checkpoint::TensorDifference> tensors = checkpoint::compare(a, b);
  Tree root, keys = Tree::list(), values = Tree::list();
  for (const Change& c : header) {
    if (!json) show("{}: {} and {}\n", c.path, c.before, c.after);
    Tree t;
    t.set("key", Tree(c.path));
    t.set("first", Tree(c.before));
    t.set("second", Tree(c.after));
    keys.push(std::move(t));
  }
  for (const checkpoint::TensorDifference& d : tensors) {
    if (!json) show("{}: {}\n", d.name, in_words(d));
    values.push(as_tree(d));
  }
  root.set("header", std::move(keys));
  root.set("tensors", std::move(values));
  root.set("compared", Tree(std::ssize(a.tensors())));
  if (json)
    fmt::print("{}\n", to_json(root));
  else
    show("{} of {} tensors differ\n", tensors.size(), a.tensors().size());
  return header.empty() && tensors.empty() ? 0 : 1;
}

std::string family_name(const model::ModelConfig& m) { return name_of_entry(m.family); }

// Throws Error if the tokenizer of the folder cannot be read. Without this check, `generate` would
// be the first to report it.
void check_tokenizer(const Path& folder) {
  if (!checkpoint::is_hf_folder(folder)) return;  // import_hf reports what is missing
  const checkpoint::CheckpointReader reader(folder);
  const std::string& bytes = reader.header().tokenizer;
  if (bytes.empty()) return;
  try {
    data::make_tokenizer(bytes, (folder / checkpoint::tokenizer_file_name(bytes)).string());
  } catch (const Error& e) {
    throw Error(
        "{}\n  Repair or replace this file, or import only the weights with --without-tokenizer.",
        e.what());
  }
}

// Imports a Hugging Face folder. The tokenizer is checked first, because copying the weights needs
// more time.
int import_folder(Args args) {
  std::string from, out, adapter;
  bool json = false, without_tokenizer = false;
  Arguments arguments("checkpoint import",
                      "Import a Hugging Face model of a supported family as a checkpoint.",
                      "tessera checkpoint import --from pythia-70m --out pythia-70m.checkpoint");
  arguments.option(from, "--from", "DIR",
                   "folder with config.json, safetensors, tokenizer.json (as by save_pretrained)",
                   true);
  arguments.option(out, "--out", "CHECKPOINT", "checkpoint to create", true);
  arguments.flag(without_tokenizer, "--without-tokenizer",
                 "import only the weights, for example if the tokenizer is not supported");
  arguments.option(adapter, "--adapter", "DIR",
                   "PEFT folder of LoRA adapters to add; --from may then be a checkpoint, too");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  if (!adapter.empty()) return import_adapter(from, adapter, out, json);
  const Clock clock;
  if (!without_tokenizer) check_tokenizer(from);
  StatusLine status;
  const checkpoint::HfImport made = checkpoint::import_hf(from, out, version(), !without_tokenizer,
                                                          show_tensors(status, "importing"));
  status.erase();
  if (json) {
    Tree t;
    t.set("checkpoint", Tree(out));
    t.set("family", Tree(family_name(made.model)));
    t.set("parameters", Tree(made.parameters));
    t.set("tensors", Tree(made.tensors));
    t.set("stored_as", Tree(std::string(name_of(made.stored_as))));
    t.set("tokenizer", Tree(made.has_tokenizer));
    t.set("skipped", write_value(made.skipped));
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  show("{}: {}, {:.1f} M parameters in {} tensors, {} in {:.1f} s\n", out, family_name(made.model),
       ratio(made.parameters, 1'000'000), made.tensors,
       made.stored_as == DType::kF32 ? "f32"
                                     : fmt::format("{} widened to f32", name_of(made.stored_as)),
       clock.seconds());
  if (!made.skipped.empty())
    show("  skipped: {} tensors that are not weights, such as {}\n", made.skipped.size(),
         made.skipped[0]);
  if (!made.has_tokenizer && !without_tokenizer)
    show(
        "  {} has no tokenizer.json, which `generate` needs. Create it with transformers,\n"
        "  AutoTokenizer.from_pretrained(…).save_pretrained(…), and import the model again.\n",
        from);
  return 0;
}

// Returns the special tokens for the tokenizer's configuration. A name that is not a piece of the
// model is omitted, because transformers would add a new token for it, for which the embedding has
// no row.
std::vector<std::pair<std::string, std::string>> special_pieces(
    const data::SentencePieceModel& model) {
  std::vector<std::pair<std::string, std::string>> names;
  const std::pair<const char*, std::string> controls[] = {{"bos_token", model.begin_name},
                                                          {"eos_token", model.end_name},
                                                          {"pad_token", model.pad_name}};
  for (const auto& [key, name] : controls)
    if (model.control_id(name) >= 0) names.emplace_back(key, name);
  for (const data::SentencePieceModel::Piece& piece : model.pieces)
    if (piece.type == data::PieceType::kUnknown) names.emplace_back("unk_token", piece.text);
  return names;
}

// Returns the facts about a SentencePiece model that export needs; nothing for other tokenizers.
std::optional<checkpoint::SentencePieceIds> sentencepiece_ids(
    const checkpoint::CheckpointReader& reader, const data::Tokenizer& tokenizer) {
  const std::string& bytes = reader.header().tokenizer;
  if (checkpoint::tokenizer_file_name(bytes) == std::string_view(checkpoint::kTokenizerFile))
    return {};
  if (!tokenizer.end_of_text()) return {};
  const std::string source = (reader.folder() / checkpoint::kSentencePieceFile).string();
  const data::SentencePieceModel pieces = data::read_sentencepiece_model(bytes, source);
  const model::ModelConfig model = checkpoint::stored_model(reader);
  const bool encodes = model::rule_of(model.family).has_encoder;
  const checkpoint::HfTextRules texts = checkpoint::hf_text_rules(reader.header());
  checkpoint::SentencePieceIds ids{*tokenizer.end_of_text(), tokenizer.sentinels(),
                                   special_pieces(pieces)};
  // A tokenizer.json is exported with the model if transformers' class for the SentencePiece file
  // would drop the byte fallback or read a unigram model as BPE (unigram_tokenizer_json).
  if (pieces.byte_fallback || !encodes)
    ids.tokenizer_json = data::unigram_tokenizer_json(
        pieces,
        {texts.begin ? pieces.begin_name : "", encodes || texts.end ? pieces.end_name : ""});
  return ids;
}

// Sets the export options that depend on the tokenizer.
void describe_tokenizer(const Path& checkpoint, checkpoint::HfExportOptions& options) {
  const checkpoint::CheckpointReader reader(checkpoint);
  if (reader.header().tokenizer.empty()) return;
  checkpoint::require_logits(reader);
  checkpoint::stored_model(reader);  // so that its errors come before those of the tokenizer
  const auto tokenizer = tokenizer_of(reader);
  options.tokenizer_vocabulary = tokenizer->vocabulary_size();
  options.sentencepiece = sentencepiece_ids(reader, *tokenizer);
}

// Returns true if AutoTokenizer would give other ids than the tokenizer of the checkpoint.
bool splits_words_otherwise(const Path& checkpoint, const model::ModelConfig& model) {
  const checkpoint::CheckpointReader reader(checkpoint);
  return train::splits_words_otherwise(reader.header().tokenizer, checkpoint.string(), model);
}

checkpoint::HfExportOptions export_options(const std::string& dtype, int64_t max_file_bytes) {
  checkpoint::HfExportOptions options;
  const auto known = dtype_from_name(dtype);
  if (known != DType::kF32 && known != DType::kBF16 && known != DType::kF16)
    throw UsageError("checkpoint export: --dtype is '{}', expected f32, bf16 or f16", dtype);
  if (max_file_bytes <= 0)
    throw UsageError("checkpoint export: --max-file-bytes is {}, expected a number above zero",
                     max_file_bytes);
  options.dtype = *known;
  options.max_file_bytes = max_file_bytes;
  return options;
}

// Exports a checkpoint, and reports what the exported folder cannot represent: settings for which
// config.json has no key, and a rule for splitting words that transformers' tokenizer class
// ignores.
int export_folder(Args args) {
  std::string checkpoint, to, dtype = "f32", weights = "trained", base;
  bool adapter = false;
  int64_t max_file_bytes = checkpoint::HfExportOptions{}.max_file_bytes;
  bool json = false;
  Arguments arguments("checkpoint export",
                      "Export the model of a checkpoint to a folder that transformers can load.",
                      "tessera checkpoint export runs/pythia-70m --to pythia-70m-hf");
  arguments.required(checkpoint, "CHECKPOINT", "a run directory or a checkpoint");
  arguments.option(to, "--to", "DIR", "folder to create", true);
  arguments.option(dtype, "--dtype", "TYPE", "dtype of the stored weights: f32, bf16 or f16");
  add_weights(arguments, weights);
  arguments.option(max_file_bytes, "--max-file-bytes", "N", "maximum bytes per file");
  arguments.flag(adapter, "--adapter", "write only the LoRA adapters, in f32, as a PEFT folder");
  arguments.option(base, "--base", "NAME", "with --adapter: name or path of the base model");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  checkpoint::HfExportOptions options = export_options(dtype, max_file_bytes);
  options.averages = is_average(weights);
  if (adapter) return export_adapter(checkpoint, to, base, options, json);
  const Clock clock;
  const Path source = choose_checkpoint(checkpoint);
  describe_tokenizer(source, options);
  StatusLine status;
  const checkpoint::HfExport made =
      checkpoint::export_hf(source, to, options, show_tensors(status, "exporting"));
  status.erase();
  if (json) {
    Tree t;
    t.set("folder", Tree(to));
    t.set("family", Tree(family_name(made.model)));
    t.set("parameters", Tree(made.parameters));
    t.set("tensors", Tree(made.tensors));
    t.set("dtype", Tree(dtype));
    t.set("files", write_value(made.files));
    t.set("end_of_text", made.end_of_text ? Tree(*made.end_of_text) : Tree());
    t.set("tokenizer", Tree(made.has_tokenizer));
    t.set("unsaid", write_value(made.unsaid));
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  show("{}: {}, {:.1f} M parameters as {} in {} file{}, {:.1f} s\n", to, family_name(made.model),
       ratio(made.parameters, 1'000'000), dtype, made.files.size(),
       made.files.size() == 1 ? "" : "s", clock.seconds());
  if (!made.has_tokenizer) show("  no tokenizer exported: the checkpoint has none\n");
  for (const std::string& unsaid : made.unsaid)
    show("  config.json of {} has no key for {}\n", family_name(made.model), unsaid);
  show("  AutoModelFor{}LM.from_pretrained('{}') loads it\n",
       made.model.encoder_layers > 0 ? "Seq2Seq" : "Causal", to);
  if (made.has_tokenizer && splits_words_otherwise(source, made.model))
    show(
        "  AutoTokenizer would split text into words as the published {} does, not as in "
        "training.\n"
        "  PreTrainedTokenizerFast.from_pretrained('{}') uses its tokenizer.json\n",
        family_name(made.model), to);
  return 0;
}

constexpr const char* kLook = "Inspect";
constexpr const char* kMake = "Create";
constexpr const char* kHuggingFace = "Hugging Face";
const Verb kVerbs[] = {
    {"ls", kLook, "list the checkpoints of a run, or the tensors of one",
     "tessera checkpoint ls runs/pythia-70m", list},
    {"verify", kLook, "read every byte, compare the checksums, look for NaN",
     "tessera checkpoint verify runs/pythia-70m", verify},
    {"diff", kLook, "compare two checkpoints", "tessera checkpoint diff runs/a runs/b", diff},
    {"average", kMake, "average the weights of several checkpoints",
     "tessera checkpoint average --out mean run/checkpoints/900 run/checkpoints/1000",
     checkpoint_average},
    {"merge", kMake, "add adapters to the weights of their base model",
     "tessera checkpoint merge runs/tuned --out tuned.checkpoint", checkpoint_merge},
    {"import", kHuggingFace, "import a Hugging Face model as a checkpoint",
     "tessera checkpoint import --from pythia-70m --out pythia-70m.checkpoint", import_folder},
    {"export", kHuggingFace, "export a model to a folder that transformers can load",
     "tessera checkpoint export runs/pythia-70m --to pythia-70m-hf", export_folder},
};

}  // namespace

int verb_checkpoint(Args args) { return run_verb("checkpoint", kVerbs, args); }

}  // namespace tessera::cli
