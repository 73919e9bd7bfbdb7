// tessera data render: shows the text that a chat template makes of conversations, and with a
// tokenizer also the ids and which of them have a loss, as a run encodes them.
#include <filesystem>

#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_text.h"
#include "cli/arguments.h"
#include "cli/loss_marks.h"
#include "cli/row_tree.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "config/chat_section.h"
#include "data/conversation.h"
#include "data/example_stream.h"
#include "data/tokenizer.h"
#include "jinja/template.h"
#include "train/load_run.h"

namespace tessera::cli {
namespace {

// Returns the template in a file, or that of a Hugging Face folder.
std::string template_text(const std::string& name) {
  if (!std::filesystem::is_directory(name)) return read_file(name);
  checkpoint::CheckpointHeader header;
  header.state = Tree::object();
  checkpoint::read_text_rules(name, Tree::object(), false, header.state);
  std::string text = checkpoint::chat_template_of(header);
  if (text.empty())
    throw Error(
        "{}: has no chat template, neither chat_template.jinja nor one in "
        "tokenizer_config.json",
        name);
  return text;
}

// Returns the variables of a line: its members, and null for those that transformers always sets.
Tree variables_of(Tree line, bool prompt, const std::string& place) {
  if (line.as_members() == nullptr || line.find("messages") == nullptr)
    throw Error("{}: expected an object with 'messages'", place);
  if (const Tree::List* messages = line.find("messages")->as_list())
    line.set("messages", Tree(data::with_reasoning_names(*messages)));
  for (const char* name : {"tools", "documents"})
    if (line.find(name) == nullptr) line.set(name, Tree());
  if (line.find("add_generation_prompt") == nullptr)
    line.set("add_generation_prompt", Tree(prompt));
  return line;
}

Tree to_tree(const jinja::RenderedText& text) {
  Tree t, spans = Tree::list();
  for (const auto& [from, to] : text.generated) {
    Tree span = Tree::list();
    span.push(Tree(static_cast<int64_t>(from)));
    span.push(Tree(static_cast<int64_t>(to)));
    spans.push(std::move(span));
  }
  t.set("text", Tree(text.text));
  t.set("generated", std::move(spans));
  return t;
}

// Returns how a run with this template, tokenizer and date reads chat data.
data::ChatSpec spec_of(const std::string& name, const std::string& tokenizer,
                       const std::string& date, const data::Tokenizer& t) {
  config::RunConfig config;
  const bool folder = std::filesystem::is_directory(name);
  config.data.tokenizer = folder ? name : tokenizer;
  if (!folder) config.chat.chat_template = name;
  config.chat.template_date = date;
  return train::chat_spec(config, t);
}

// Prints each example with marks around what has a loss, or as JSON with ids and flags.
void print_encoded(const std::string& name, const std::string& file, const std::string& tokenizer,
                   const std::string& date, bool json) {
  const auto t = data::load_tokenizer(data::tokenizer_file(tokenizer));
  data::ChatEncoder encoder(spec_of(name, tokenizer, date, *t), *t);
  data::ExampleStream stream({file});
  for (data::JsonExample line; stream.next(line);) {
    const std::string place = fmt::format("{}:{}", stream.sources()[line.source], line.line);
    std::vector<int32_t> ids;
    std::vector<char> learned;
    Tree out;
    try {
      encoder.add(line, place, ids, learned);
      out.set("ids", list_of(std::span<const int32_t>(ids)));
      out.set("learned", list_of(std::span<const char>(learned)));
    } catch (const Error& e) {
      if (!json) throw;
      out.set("error", Tree(std::string(e.what())));
    }
    fmt::print("{}\n", json ? to_json(out) : marked_text(*t, ids, learned));
  }
  for (const std::string& what : data::warnings(encoder.notes()))
    fmt::print(stderr, "warning: {}\n", what);
}

}  // namespace

int data_render(Args args) {
  std::string name, file, date, tokenizer;
  bool json = false, prompt = false;
  Arguments arguments("data render",
                      "Print conversations as a chat template writes them. Each line of FILE is an "
                      "object with `messages` and, if the template uses them, `tools` and other "
                      "variables.",
                      "tessera data render hf-folder chat.jsonl");
  arguments.required(name, "TEMPLATE", "a file in Jinja, or a Hugging Face folder");
  arguments.required(file, "FILE", "conversations: JSON Lines, or one JSON list");
  arguments.flag(prompt, "--prompt", "end with the prompt for an answer");
  arguments.option(tokenizer, "--tokenizer", "T",
                   "mark the tokens that have a loss; FILE may have any form of chat data");
  arguments.option(date, "--date", "DATE", "the date for templates that write it: 2026-01-31");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  if (!date.empty() && !config::date_of(date))
    throw UsageError("--date is '{}', expected a date such as 2026-01-31", date);
  if (!tokenizer.empty()) {
    if (prompt) throw UsageError("--prompt and --tokenizer exclude each other");
    print_encoded(name, file, tokenizer, date, json);
    return 0;
  }
  const jinja::Template form(template_text(name), name);
  data::ExampleStream stream({file});
  for (data::JsonExample line; stream.next(line);) {
    const std::string place = fmt::format("{}:{}", stream.sources()[line.source], line.line);
    const Tree variables = variables_of(std::move(line.tree), prompt, place);
    if (!json) {
      show("{}\n", form.render(variables, config::date_of(date)).text);
      continue;
    }
    Tree out;
    try {
      out = to_tree(form.render(variables, config::date_of(date)));
    } catch (const Error& e) {
      out.set("error", Tree(std::string(e.what())));
    }
    fmt::print("{}\n", to_json(out));
  }
  return 0;
}

}  // namespace tessera::cli
