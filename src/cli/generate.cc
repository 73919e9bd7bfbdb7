// tessera generate CHECKPOINT: continues prompts. One text is printed while it is written; several
// texts, of several prompts or samples, are written in batches, one JSON line each.
//
// A batch has a number of slots; a text begins as soon as one is free. Texts end in any order but
// are written in the order of prompts and samples, so the output is the same for any number of
// slots. The random numbers of a text are a function of (seed, number of the sample, position), so
// its content does not depend on the others either.
//
// A prompt of a file that does not fit in the context gets an "error" in its line of the output,
// the others are continued, and the exit code is 1: one bad line must not cost the rest of a long
// file.
//
// Ranks that hold the model together all write the same texts; rank 0 prints them.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <optional>
#include <utility>

#include "base/count.h"
#include "base/log.h"
#include "base/tree.h"
#include "cli/adapter_option.h"
#include "cli/checkpoint_file.h"
#include "cli/model_layout.h"
#include "cli/prompts_file.h"
#include "cli/rank.h"
#include "cli/sampling_options.h"
#include "cli/verbs.h"
#include "eval/batch_decoder.h"
#include "eval/generate.h"
#include "eval/text_batch.h"
#include "eval/text_rules.h"
#include "eval/text_stream.h"

namespace tessera::cli {
namespace {

std::string read_standard_input() {
  std::string text;
  std::array<char, 4096> piece;
  for (size_t n; (n = std::fread(piece.data(), 1, piece.size(), stdin)) > 0;)
    text.append(piece.data(), n);
  if (std::ferror(stdin) != 0) throw Error("standard input cannot be read");
  return text;
}

void print_piece(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

struct Settings {
  eval::SamplingOptions sampling;
  eval::SpecialTokenRules rules;
  std::vector<std::string> stops;
  int64_t max_tokens = 100, min_tokens = 0, samples = 1, probabilities = -1;
  uint64_t seed = 0;
  bool json = false, prints = true;
};

// A text that is being written, or is complete.
struct Output {
  const Prompt* prompt = nullptr;
  int64_t prompt_index = 0, sample = 0;
  std::vector<int32_t> ids;     // the prompt
  std::vector<int32_t> tokens;  // the output
  Tree probabilities;
  std::string text;
  std::optional<eval::TextStream> stream;
  eval::Ending ending = eval::Ending::kLength;
  std::string error;  // "": none
  bool done = false;
};

// The members that as_tree() adds to those of a line of a prompts file.
constexpr std::array<std::string_view, 8> kResults{
    "index", "sample", "prompt", "tokens", "text", "finish_reason", "log_probabilities", "error"};

Tree top_tree(const eval::NewToken& t) {
  Tree out = Tree::object();
  out.set("token", Tree(int64_t{t.token}));
  out.set("log_probability", Tree(t.log_probability));
  Tree top = Tree::list();
  for (const eval::TokenProbability& p : t.top) {
    Tree one = Tree::object();
    one.set("token", Tree(int64_t{p.token}));
    one.set("log_probability", Tree(p.log_probability));
    top.push(std::move(one));
  }
  if (!t.top.empty()) out.set("top", std::move(top));
  return out;
}

void add_rest(const Prompt& prompt, Tree& out) {
  if (const auto* members = prompt.rest.as_members())
    for (const auto& [key, value] : *members) out.set(key, value);
}

Tree as_tree(const Output& o, const Settings& s, bool several) {
  Tree root = Tree::object(), list = Tree::list();
  if (several) {
    root.set("index", Tree(o.prompt_index));
    if (s.samples > 1) root.set("sample", Tree(o.sample));
    root.set("prompt", Tree(eval::as_utf8(o.prompt->text)));
  }
  if (!o.error.empty()) {
    root.set("error", Tree(eval::as_utf8(o.error)));
    add_rest(*o.prompt, root);
    return root;
  }
  for (const int32_t id : o.tokens) list.push(Tree(int64_t{id}));
  root.set("tokens", std::move(list));
  root.set("text", Tree(o.text));
  root.set("finish_reason", Tree(std::string(o.ending == eval::Ending::kStop ? "stop" : "length")));
  if (s.probabilities >= 0)
    root.set("log_probabilities", o.probabilities.is_null() ? Tree::list() : o.probabilities);
  add_rest(*o.prompt, root);
  return root;
}

// The ids that the model reads of a prompt.
std::vector<int32_t> read_ids(const Settings& s, const data::Tokenizer& tokenizer,
                              const std::string& prompt) {
  std::vector<int32_t> ids = eval::encode_text(s.rules, tokenizer, prompt);
  // The prompt is empty: a text from its beginning.
  if (ids.empty() && s.rules.alone) ids.push_back(*s.rules.alone);
  return ids;
}

eval::TextRequest request_of(Output& o, const Settings& s) {
  eval::TextRequest r;
  r.prompt = o.ids;
  r.sampling = s.sampling;
  r.max_tokens = s.max_tokens;
  r.min_tokens = s.min_tokens;
  r.seed = s.seed;
  r.sequence = static_cast<uint64_t>(o.sample);
  r.stops = s.rules.stops;
  r.top_probabilities = s.probabilities;
  r.each = [&o, &s, live = false](const eval::NewToken& t) mutable {
    o.tokens.push_back(t.token);
    if (s.probabilities >= 0) o.probabilities.push(top_tree(t));
    const std::string piece = o.stream->add(t.token);
    o.text += piece;
    if (!s.json && s.prints) {
      if (!std::exchange(live, true)) print_piece(o.prompt->text);
      print_piece(piece);
    }
    return !o.stream->stopped();
  };
  r.end = [&o](eval::Ending how) {
    o.ending = how;
    o.done = true;
  };
  return r;
}

void finish(Output& o, const Settings& s, bool several) {
  if (o.ending == eval::Ending::kError)
    throw NumericError(
        "the logits after {} tokens are not finite, although all weights are. Use another "
        "checkpoint.",
        o.ids.size() + o.tokens.size());
  const std::string rest = o.stream->finish();
  o.text += rest;
  if (!s.prints) return;
  if (s.json) {
    fmt::print("{}\n", to_json(as_tree(o, s, several)));
  } else {
    if (o.tokens.empty()) print_piece(o.prompt->text);
    print_piece(rest + "\n");
  }
  std::fflush(stdout);
}

// A step reads all weights of a rank, `weight_bytes`, once.
void print_speed(const eval::BatchCounts& c, size_t texts, double seconds, int64_t weight_bytes) {
  std::string line = fmt::format(
      "{} texts: {} tokens of prompts, {} new ones in {} steps and {:.2f} s: {:.1f} tokens/s",
      texts, c.prompt_tokens, c.output_tokens, c.steps, seconds,
      static_cast<double>(c.output_tokens) / seconds);
  const double read = static_cast<double>(c.steps) * static_cast<double>(weight_bytes);
  line += "; weights read at " + rate_text(read / seconds, "B/s") + " per rank\n";
  print_to(stderr, line);
}

// The texts to write: `samples` of each prompt.
std::deque<Output> outputs_of(const data::Tokenizer& tokenizer, const Settings& s,
                              std::span<const Prompt> prompts) {
  std::deque<Output> outputs;
  for (size_t i = 0; i < prompts.size(); ++i)
    for (int64_t sample = 0; sample < s.samples; ++sample) {
      Output& o = outputs.emplace_back();
      o.prompt = &prompts[i];
      o.prompt_index = static_cast<int64_t>(i);
      o.sample = sample;
      o.ids = read_ids(s, tokenizer, prompts[i].text);
      o.stream.emplace(tokenizer, o.ids, s.stops, true);
    }
  return outputs;
}

// Returns the error of a prompt from a file, or "" if it is valid. Throws Error instead for
// --prompt.
std::string problem_of(Output& o, const Settings& s, const eval::BatchDecoder& decoder) {
  try {
    eval::validate(request_of(o, s), decoder);
  } catch (const Error& e) {
    if (o.prompt->place.empty()) throw;
    return fmt::format("{}: {}", o.prompt->place, e.what());
  }
  return "";
}

// Checks the texts before anything is printed. Those that cannot be written get an error; returns
// their number. Throws Error if there is no other text.
size_t check_texts(std::deque<Output>& outputs, const Settings& s,
                   const eval::BatchDecoder& decoder) {
  size_t wrong = 0;
  for (Output& o : outputs) {
    o.error = problem_of(o, s, decoder);
    o.done = !o.error.empty();
    wrong += o.done ? 1 : 0;
  }
  if (wrong == outputs.size()) throw Error("{}", outputs.front().error);
  return wrong;
}

// Writes all texts, one per slot of the decoder at a time, and prints them in order.
void write_texts(eval::BatchDecoder& decoder, std::deque<Output>& outputs, const Settings& s,
                 bool several) {
  const size_t wrong = check_texts(outputs, s, decoder);
  eval::TextBatch batch(decoder, s.rules.vocabulary);
  const auto start = std::chrono::steady_clock::now();
  size_t begun = 0, printed = 0;
  while (printed < outputs.size()) {
    for (; begun < outputs.size() && batch.has_room(); ++begun)
      if (!outputs[begun].done) batch.add(request_of(outputs[begun], s));
    batch.step();
    for (; printed < outputs.size() && outputs[printed].done; ++printed)
      finish(outputs[printed], s, several);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (several && s.prints)
    print_speed(batch.counts(), outputs.size(), seconds.count(), decoder.weight_bytes());
  if (wrong > 0)
    throw Error(
        "{} of {} texts were not generated. Their lines of the output state why in \"error\".",
        wrong, outputs.size());
}

// Returns the number of tokens that the longest text may have.
int64_t longest_of(const std::deque<Output>& outputs, const Settings& s, int64_t context) {
  int64_t longest = 1;
  for (const Output& o : outputs)
    longest = std::max(longest, std::ssize(o.ids) + std::min(s.max_tokens, context));
  return longest;
}

// A model with an encoder reads the prompt with it, and its decoder begins with padding.
void answer(checkpoint::CheckpointReader& reader, const data::Tokenizer& tokenizer,
            const Settings& s, const Prompt& prompt, const eval::ModelOptions& where) {
  const std::vector<int32_t> source = eval::encode_text(s.rules, tokenizer, prompt.text);
  if (source.empty()) throw UsageError("--prompt is empty; an encoder–decoder model needs one");
  eval::Decoder decoder(reader, where, source);
  Output o;
  o.prompt = &prompt;
  o.stream.emplace(tokenizer, std::span<const int32_t>(), s.stops, true);
  eval::GenerateOptions options;
  options.sampling = s.sampling;
  options.max_tokens = s.max_tokens;
  options.vocabulary = s.rules.vocabulary;
  options.seed = s.seed;
  options.stops = s.rules.stops;
  options.enough = [&](std::span<const int32_t>) { return o.stream->stopped(); };
  o.tokens = eval::generate(decoder, std::vector<int32_t>{0}, options, [&](int32_t id) {
    const std::string piece = o.stream->add(id);
    o.text += piece;
    if (!s.json) print_piece(piece);
  });
  if (std::ssize(o.tokens) < s.max_tokens) o.ending = eval::Ending::kStop;
  const std::string rest = o.stream->finish();
  o.text += rest;
  if (s.json)
    fmt::print("{}\n", to_json(as_tree(o, s, false)));
  else
    print_piece(rest + "\n");
}

void check_numbers(const Settings& s, int64_t batch) {
  if (s.samples < 1 || s.samples > 1024)
    throw UsageError("--samples is {}, expected 1 to 1024.", s.samples);
  if (s.probabilities < -1 || s.probabilities > 100)
    throw UsageError("--log-probabilities is {}, expected 0 to 100.", s.probabilities);
  if (batch < 1 || batch > 1024) throw UsageError("--batch is {}, expected 1 to 1024.", batch);
}

// The arguments of the command.
struct GenerateCommand {
  std::string checkpoint, adapter, prompt, file, weights = "trained", layout = "auto";
  int64_t seed = 0, batch = 8;
  bool ignore_end = false;
  Settings settings;
};

void declare(Arguments& a, GenerateCommand& c) {
  Settings& s = c.settings;
  a.required(c.checkpoint, "CHECKPOINT",
             "a run directory, a checkpoints folder, one checkpoint or a Hugging Face folder");
  a.option(c.prompt, "--prompt", "TEXT", "the text to continue; '-' reads standard input");
  a.option(c.file, "--prompts", "FILE",
           "a prompt per line: text, or JSON objects with \"prompt\"; prints JSON Lines");
  a.option(s.max_tokens, "--max-tokens", "N", "maximum number of new tokens");
  a.option(s.min_tokens, "--min-tokens", "N",
           "minimum number of new tokens before the text may end");
  a.option(s.samples, "--samples", "N", "texts per prompt; more than one prints JSON Lines");
  a.option(c.seed, "--seed", "N", "random seed");
  a.option(s.stops, "--stop", "TEXT", "end the output before this text (repeatable)");
  a.option(s.probabilities, "--log-probabilities", "N",
           "print the log-probability of each token and of the N most probable ones");
  a.option(c.batch, "--batch", "N", "number of texts generated in parallel");
  add_adapter(a, c.adapter);
  add_weights(a, c.weights);
  add_layout(a, c.layout);
  a.flag(c.ignore_end, "--ignore-end", "do not stop at the end-of-text token");
  a.json(s.json);
}

// The prompts, on all ranks. Standard input is that of rank 0.
std::vector<Prompt> prompts_of(GenerateCommand& c, comm::World& world) {
  if (!c.file.empty()) return read_prompts(c.file, kResults);
  if (c.prompt == "-") {
    if (world.rank() == 0) c.prompt = read_standard_input();
    world.broadcast(c.prompt, 0);
  }
  return {{c.prompt, {}, {}}};
}

void generate(GenerateCommand& c, comm::World& world, eval::ModelOptions where) {
  Settings& s = c.settings;
  const std::vector<Prompt> prompts = prompts_of(c, world);
  checkpoint::CheckpointReader reader = open_checkpoint(c.checkpoint, c.weights);
  use_adapter(c.adapter, reader);
  divide_model(c.layout, reader, world, where);
  if (world.size() > 1 && where.world == nullptr)
    throw UsageError(
        "generate: {} ranks were started, and each would hold the whole model. Start it without "
        "mpirun, or divide the model, such as --layout tensor={}.",
        world.size(), world.size());
  const auto tokenizer = tokenizer_of(reader);
  s.seed = static_cast<uint64_t>(c.seed);
  s.rules = eval::text_rules(reader, *tokenizer);
  for (const auto& [token, bias] : s.sampling.logit_bias)
    if (token < 0 || token >= s.rules.vocabulary)
      throw UsageError("generate --logit-bias: there is no token {}, expected 0 to {}.", token,
                       s.rules.vocabulary - 1);
  if (c.ignore_end) s.rules.stops.clear();
  const int64_t texts = std::ssize(prompts) * s.samples, slots = std::min(c.batch, texts);
  const bool several = !c.file.empty() || texts > 1;
  s.json = s.json || several || s.probabilities >= 0;
  s.prints = world.rank() == 0;
  if (s.rules.has_encoder) {
    if (several || world.size() > 1)
      throw UsageError(
          "generate: an encoder–decoder model answers one --prompt with one text at a time, on one "
          "rank.");
    return answer(reader, *tokenizer, s, prompts[0], where);
  }
  std::deque<Output> outputs = outputs_of(*tokenizer, s, prompts);
  const int64_t longest = longest_of(outputs, s, eval::model_of(reader).context);
  eval::BatchDecoder decoder(reader, where,
                             {.slots = slots, .context = eval::context_for(reader, longest)});
  write_texts(decoder, outputs, s, several);
}

}  // namespace

int verb_generate(Args args) {
  GenerateCommand c;
  Arguments a("generate", "Continue or answer texts with the model of a checkpoint.",
              "tessera generate runs/pythia-70m --prompt 'The city' --temperature 0.8");
  declare(a, c);
  SamplingArguments sampling(a);
  DeviceArguments device(a);
  if (!a.parse(args)) return 0;
  if (a.given("--prompt") == a.given("--prompts"))
    throw UsageError("generate: expected either --prompt TEXT or --prompts FILE.");
  check_numbers(c.settings, c.batch);
  if (std::ranges::find(c.settings.stops, "") != c.settings.stops.end())
    throw UsageError("generate --stop: the text is empty. Give a text, or omit the option.");
  c.settings.sampling = sampling.options();
  const std::unique_ptr<comm::World> world =
      read_rank_info().ranks > 1 ? comm::mpi_world() : comm::self_world();
  generate(c, *world, device.options(*world));
  return 0;
}

}  // namespace tessera::cli
