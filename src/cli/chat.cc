// tessera chat CHECKPOINT: a conversation in the terminal. Without a terminal, each line of
// standard input is a command or a message, and each answer is printed as it is.
//
// The whole conversation is rendered by the chat template before each answer, and its ids are the
// prompt. The batch keeps the keys and values of the last text of its slot and reads only what
// follows the common prefix, so a turn costs its own tokens, not those of the conversation. A
// template that changes earlier turns only shortens that prefix.
//
// Ctrl-C ends the current answer and keeps its text. An answer that fails, or that Ctrl-C ends
// before its first token, removes its message, so the conversation stays one that the template
// accepts. Other signals and a second Ctrl-C end the program, also while a long conversation is
// read.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "cli/adapter_option.h"
#include "cli/checkpoint_file.h"
#include "cli/rank.h"
#include "cli/sampling_options.h"
#include "cli/verbs.h"
#include "eval/batch_decoder.h"
#include "eval/text_batch.h"
#include "eval/text_rules.h"
#include "eval/text_stream.h"
#include "serve/chat_template.h"
#include "train/signals.h"

namespace tessera::cli {
namespace {

constexpr std::array<std::string_view, 6> kCommands{"/reset", "/system", "/undo",
                                                    "/help",  "/quit",   "/exit"};
constexpr const char* kHelp =
    "/reset          clear the conversation\n"
    "/system TEXT    set the system message and clear the conversation; without TEXT: none\n"
    "/undo           remove the last message and its answer\n"
    "/help           show this list\n"
    "/quit           leave (also Ctrl-D); Ctrl-C stops an answer\n";

void write_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Writes to standard output. Throws Error if this, or an earlier write, failed.
void say(const std::string& text) {
  write_out(text);
  if (std::ferror(stdout) != 0)
    throw Error("standard output cannot be written: {}", std::strerror(errno));
}

class Conversation {
 public:
  Conversation(checkpoint::CheckpointReader& reader, const data::Tokenizer& tokenizer,
               const std::string& template_file, const eval::ModelOptions& device, int64_t context)
      : tokenizer_(tokenizer),
        rules_(eval::text_rules(reader, tokenizer)),
        template_(serve::chat_template_of(reader, tokenizer, template_file)),
        decoder_(reader, device, {.slots = 1, .context = context}),
        batch_(decoder_, rules_.vocabulary) {}

  eval::SamplingOptions sampling;
  int64_t max_tokens = 0;  // 0: what the context has left
  uint64_t seed = 0;

  std::string description() const { return template_->description(); }
  void set_system(std::string text) {
    system_ = std::move(text);
    reset();
  }
  void reset() { messages_.clear(); }
  void undo() {
    while (!messages_.empty() && messages_.back().role != "user") messages_.pop_back();
    if (!messages_.empty()) messages_.pop_back();
  }

  // Prints the answer to a message while it is generated, and keeps both. Throws Error, and keeps
  // nothing, if the conversation does not fit in the context.
  void answer(const std::string& message);

 private:
  eval::TextRequest request() const;
  std::optional<std::string> generate();

  const data::Tokenizer& tokenizer_;
  eval::SpecialTokenRules rules_;
  std::unique_ptr<serve::ChatTemplate> template_;
  eval::BatchDecoder decoder_;
  eval::TextBatch batch_;
  std::string system_;
  std::vector<serve::ChatMessage> messages_;
};

// Returns the request for the answer to the messages so far.
eval::TextRequest Conversation::request() const {
  std::vector<serve::ChatMessage> all;
  if (!system_.empty()) all.push_back({"system", system_});
  all.insert(all.end(), messages_.begin(), messages_.end());
  eval::TextRequest r;
  r.prompt = template_->prompt_ids(all, rules_, tokenizer_);
  const int64_t room = decoder_.context() - std::ssize(r.prompt);
  if (room < 1)
    throw Error(
        "the conversation has {} tokens, but the model's context is {}. Clear it with /reset, or "
        "remove the last message with /undo.",
        r.prompt.size(), decoder_.context());
  r.max_tokens = max_tokens > 0 ? std::min(max_tokens, room) : room;
  r.sampling = sampling;
  r.seed = seed;
  r.sequence = messages_.size();
  r.stops = rules_.stops;
  return r;
}

// Generates and prints the answer to the messages so far, until Ctrl-C. Returns nothing if that
// came before the first text. Ends the program at another signal.
std::optional<std::string> Conversation::generate() {
  eval::TextRequest r = request();
  std::vector<std::string> stops;
  serve::add_stops(*template_, tokenizer_, r.stops, stops);
  eval::TextStream stream(tokenizer_, r.prompt, stops);
  std::string text;
  const auto print = [&](const std::string& piece) {
    text += piece;
    write_out(piece);
  };
  std::optional<eval::Ending> ending;
  r.each = [&](const eval::NewToken& t) {
    print(stream.add(t.token));
    return !stream.stopped() && std::ferror(stdout) == 0;
  };
  r.end = [&](eval::Ending how) { ending = how; };
  eval::validate(r, decoder_);
  int signal = 0;
  {
    const train::StopSignals signals;
    const int64_t slot = batch_.add(std::move(r));
    // A step reads a part of the prompt, or writes a token.
    while (!ending) signals.requested() ? batch_.cancel(slot) : batch_.step();
    signal = signals.signal();
  }
  print(stream.finish());
  if (signal != 0 && signal != SIGINT) std::raise(signal);  // its handler is the one from before
  if (*ending == eval::Ending::kError)
    throw NumericError("the logits are not finite. Use another checkpoint.");
  if (*ending == eval::Ending::kCancelled && text.empty()) return {};
  return text;
}

void Conversation::answer(const std::string& message) {
  messages_.push_back({"user", message});
  try {
    const std::optional<std::string> text = generate();
    if (!text) return messages_.pop_back();
    const size_t first = text->find_first_not_of(" \n");
    messages_.push_back({"assistant", first == text->npos ? "" : text->substr(first)});
  } catch (const Error&) {
    messages_.pop_back();
    throw;
  }
}

std::string_view first_word(std::string_view line) { return line.substr(0, line.find(' ')); }

bool is_command(std::string_view line) {
  return std::ranges::find(kCommands, first_word(line)) != kCommands.end();
}

// Runs a line that begins with '/'. Returns false for /quit.
bool run_command(Conversation& talk, const std::string& line) {
  const size_t space = line.find(' ');
  const std::string_view name = first_word(line);
  if (name == "/quit" || name == "/exit") return false;
  if (name == "/reset")
    talk.reset();
  else if (name == "/undo")
    talk.undo();
  else if (name == "/system")
    talk.set_system(space == line.npos ? "" : line.substr(space + 1));
  else if (name == "/help")
    print_to(stderr, kHelp);
  else
    print_to(stderr, fmt::format("unknown command {}. Commands:\n{}", name, kHelp));
  return true;
}

void talk_until_end(Conversation& talk, bool terminal) {
  std::string line;
  while (true) {
    if (terminal) say("> ");
    if (!std::getline(std::cin, line)) break;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    // A user may have misspelled a command; in a file, any other line is a message.
    if (terminal ? line.starts_with('/') : is_command(line)) {
      if (!run_command(talk, line)) return;
      continue;
    }
    try {
      talk.answer(line);
    } catch (const NumericError&) {
      throw;
    } catch (const Error& e) {
      if (!terminal) throw;
      print_to(stderr, fmt::format("error: {}", e.what()));
    }
    say("\n");
  }
  if (terminal) say("\n");
}

}  // namespace

int verb_chat(Args args) {
  std::string checkpoint, adapter, system, template_file;
  int64_t seed = 0, context = 0, max_tokens = 0;
  Arguments a("chat", "Talk to the model of a checkpoint in the terminal.",
              "tessera chat runs/tuned --system 'Answer briefly.'");
  a.required(checkpoint, "CHECKPOINT",
             "a run directory, a checkpoints folder, one checkpoint or a Hugging Face folder");
  add_adapter(a, adapter);
  a.option(system, "--system", "TEXT", "the system message");
  a.option(template_file, "--chat-template", "FILE",
           "a chat template in Jinja; default: that of the checkpoint");
  a.option(max_tokens, "--max-tokens", "N",
           "maximum number of new tokens per answer; 0: the context");
  a.option(context, "--context", "N", "tokens of the conversation; 0: the model's context");
  SamplingArguments sampling(a);
  a.option(seed, "--seed", "N", "random seed");
  DeviceArguments device(a);
  if (!a.parse(args)) return 0;
  require_one_rank("chat");
  if (max_tokens < 0) throw UsageError("--max-tokens is {}, expected 0 or more.", max_tokens);
  checkpoint::CheckpointReader reader(choose_checkpoint(checkpoint));
  use_adapter(adapter, reader);
  const auto tokenizer = tokenizer_of(reader);
  Conversation talk(reader, *tokenizer, template_file, device.options(*comm::self_world()),
                    context);
  talk.sampling = sampling.options();
  talk.max_tokens = max_tokens;
  talk.seed = static_cast<uint64_t>(seed);
  if (!system.empty()) talk.set_system(system);
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (terminal)
    print_to(stderr,
             fmt::format("chat template: {}. /help lists the commands.\n", talk.description()));
  talk_until_end(talk, terminal);
  return 0;
}

}  // namespace tessera::cli
