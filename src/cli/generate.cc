// tessera generate CHECKPOINT: continues a prompt and prints each token as it is sampled.
#include <array>
#include <cstdio>
#include <utility>

#include "base/tree.h"
#include "cli/checkpoint_file.h"
#include "cli/rank.h"
#include "cli/verbs.h"
#include "eval/generate.h"
#include "eval/text_rules.h"

namespace tessera::cli {
namespace {

// Writes only complete UTF-8 characters: a byte-level token may end within a character. The
// incomplete end of the text is kept until the next tokens complete it.
class TokenStream {
 public:
  void add(std::string_view bytes) {
    pending_ += bytes;
    size_t end = pending_.size();
    size_t start = end;
    // Skips back over continuation bytes (10xxxxxx) to the lead byte, whose high bits contain the
    // length of the character. Bytes that are not UTF-8 are not held back.
    while (start > 0 && end - start < 4 && (pending_[start - 1] & 0xC0) == 0x80) --start;
    if (start > 0 && (pending_[start - 1] & 0xC0) == 0xC0) {
      const unsigned char lead = pending_[start - 1];
      const size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
      if (end - (start - 1) < need) end = start - 1;
    }
    std::fwrite(pending_.data(), 1, end, stdout);
    std::fflush(stdout);
    pending_.erase(0, end);
  }

 private:
  std::string pending_;
};

std::string read_standard_input() {
  std::string text;
  std::array<char, 4096> piece;
  for (size_t n; (n = std::fread(piece.data(), 1, piece.size(), stdin)) > 0;)
    text.append(piece.data(), n);
  if (std::ferror(stdin) != 0) throw Error("standard input cannot be read");
  return text;
}

Tree as_tree(const std::vector<int32_t>& tokens, const std::string& text) {
  Tree list = Tree::list(), root;
  for (const int32_t id : tokens) list.push(Tree(int64_t{id}));
  root.set("tokens", std::move(list));
  root.set("text", Tree(text));
  return root;
}

}  // namespace

int verb_generate(Args args) {
  std::string checkpoint, prompt, device = "auto";
  int64_t seed = 0, threads = 0;
  bool json = false, ignore_end = false;
  eval::GenerateOptions options;
  Arguments a("generate", "Continue or answer a text with the model of a checkpoint.",
              "tessera generate runs/pythia-70m --prompt 'The city' --temperature 0.8");
  a.required(checkpoint, "CHECKPOINT", "a run directory, a checkpoints folder or one checkpoint");
  a.option(prompt, "--prompt", "TEXT", "the text to continue; '-' reads standard input", true);
  a.option(options.max_tokens, "--max-tokens", "N", "maximum number of new tokens");
  a.option(options.sampling.temperature, "--temperature", "X",
           "sampling temperature; 0: the most probable token");
  a.option(options.sampling.top_k, "--top-k", "K", "sample from the K most probable; 0: all");
  a.option(options.sampling.top_p, "--top-p", "P",
           "sample from the most probable tokens whose probabilities sum to P");
  a.option(seed, "--seed", "N", "random seed");
  a.option(threads, "--threads", "N", "threads; 0: all cores");
  a.option(device, "--device", "D", "device: auto, cpu or cuda");
  a.flag(ignore_end, "--ignore-end", "do not stop at the end-of-text token");
  a.json(json);
  if (!a.parse(args)) return 0;
  if (prompt == "-") prompt = read_standard_input();
  checkpoint::CheckpointReader reader(choose_checkpoint(checkpoint));
  const auto tokenizer = tokenizer_of(reader);
  options.seed = seed;
  const eval::SpecialTokenRules rules = eval::text_rules(reader, *tokenizer);
  options.vocabulary = rules.vocabulary;
  if (!ignore_end) options.stops = rules.stops;
  // With an encoder, the prompt is the encoder's input, and the decoder begins with padding.
  std::vector<int32_t> ids = eval::encode_text(rules, *tokenizer, prompt), source;
  if (rules.has_encoder) {
    if (ids.empty()) throw UsageError("--prompt is empty; an encoder–decoder model needs one");
    source = std::exchange(ids, {0});
  } else if (ids.empty() && rules.alone) {
    ids.push_back(*rules.alone);  // the prompt is empty: generate a text from its beginning
  }
  const eval::ModelOptions where = {.threads = threads_or_all(threads),
                                    .gpu = gpu_named(device, *comm::self_world())};
  eval::Decoder decoder(reader, where, source);
  TokenStream stream;
  bool begun = json || rules.has_encoder;  // otherwise the prompt is printed before the first token
  const auto begin = [&] {
    if (!std::exchange(begun, true)) stream.add(prompt);
  };
  const std::vector<int32_t> out = eval::generate(decoder, ids, options, [&](int32_t id) {
    begin();
    if (!json) stream.add(eval::written_text(*tokenizer, {&id, 1}));
  });
  begin();
  if (json)
    fmt::print("{}\n", to_json(as_tree(out, eval::written_text(*tokenizer, out))));
  else
    fmt::print("\n");
  return 0;
}

}  // namespace tessera::cli
