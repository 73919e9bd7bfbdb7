// Builds the JSON of responses. Bodies and events of a stream share their parts: an event is a body
// with one choice that has only what is new ("delta" for a chat, "text" otherwise).
//
// A token may be a part of a character, so its bytes need not be UTF-8. JSON strings replace such
// bytes by U+FFFD (eval::as_utf8), and chat tokens carry the exact bytes next to it, as OpenAI's
// API does. text_offset counts characters of the text shown, so that it indexes the string that the
// client has; all tokens of one character have its offset.
#include "serve/api_response.h"

#include <utility>

#include "eval/text_stream.h"

namespace tessera::serve {
namespace {

Tree text(const std::string& s) { return Tree(s); }

std::string token_text(const data::Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocabulary_size()) return "";
  return std::string(tokenizer.token_bytes(id));
}

// {"token", "logprob", "bytes"} of chat completions.
Tree chat_token(const data::Tokenizer& tokenizer, int32_t id, double log_probability) {
  const std::string bytes = token_text(tokenizer, id);
  Tree out = Tree::object(), list = Tree::list();
  out.set("token", text(eval::as_utf8(bytes)));
  out.set("logprob", Tree(log_probability));
  for (const char c : bytes) list.push(Tree(int64_t{static_cast<unsigned char>(c)}));
  out.set("bytes", std::move(list));
  return out;
}

Tree chat_probabilities(const Choice& c, const data::Tokenizer& tokenizer) {
  Tree content = Tree::list(), out = Tree::object();
  for (const eval::NewToken& t : c.tokens) {
    Tree one = chat_token(tokenizer, t.token, t.log_probability), top = Tree::list();
    for (const eval::TokenProbability& p : t.top)
      top.push(chat_token(tokenizer, p.token, p.log_probability));
    one.set("top_logprobs", std::move(top));
    content.push(std::move(one));
  }
  out.set("content", std::move(content));
  return out;
}

// Four lists with one element per token. The first token of a prompt has no probability.
Tree completion_probabilities(const Choice& c, const data::Tokenizer& tokenizer) {
  Tree tokens = Tree::list(), values = Tree::list(), tops = Tree::list(), offsets = Tree::list();
  for (const int64_t offset : c.offsets) offsets.push(Tree(offset));
  for (const eval::NewToken& t : c.tokens) {
    const std::string shown = eval::as_utf8(token_text(tokenizer, t.token));
    const bool known = !t.in_prompt || t.index > 0;
    tokens.push(text(shown));
    values.push(known ? Tree(t.log_probability) : Tree());
    Tree top = known ? Tree::object() : Tree();
    for (const eval::TokenProbability& p : t.top)
      top.set(eval::as_utf8(token_text(tokenizer, p.token)), Tree(p.log_probability));
    // The token itself is listed in any case, as the API promises.
    if (known && top.find(shown) == nullptr) top.set(shown, Tree(t.log_probability));
    tops.push(std::move(top));
  }
  Tree out = Tree::object();
  out.set("tokens", std::move(tokens));
  out.set("token_logprobs", std::move(values));
  out.set("top_logprobs", std::move(tops));
  out.set("text_offset", std::move(offsets));
  return out;
}

Tree probabilities(const ResponseHeader& h, const Choice& c, const data::Tokenizer& tokenizer) {
  if (!c.has_probabilities) return {};
  return h.chat ? chat_probabilities(c, tokenizer) : completion_probabilities(c, tokenizer);
}

Tree usage_tree(const Usage& u) {
  Tree out = Tree::object();
  out.set("prompt_tokens", Tree(u.prompt_tokens));
  out.set("completion_tokens", Tree(u.completion_tokens));
  out.set("total_tokens", Tree(u.prompt_tokens + u.completion_tokens));
  return out;
}

Tree base(const ResponseHeader& h, const char* object) {
  Tree out = Tree::object();
  out.set("id", text(h.id));
  out.set("object", text(object));
  out.set("created", Tree(h.created));
  out.set("model", text(h.model));
  return out;
}

const char* object_of(const ResponseHeader& h, bool event) {
  if (!h.chat) return "text_completion";
  return event ? "chat.completion.chunk" : "chat.completion";
}

Tree finish_of(const Choice& c) { return c.finish_reason.empty() ? Tree() : text(c.finish_reason); }

std::string with_choice(const ResponseHeader& h, Tree choice) {
  Tree out = base(h, object_of(h, true)), list = Tree::list();
  list.push(std::move(choice));
  out.set("choices", std::move(list));
  return to_json(out);
}

}  // namespace

std::string response_body(const ResponseHeader& h, const std::vector<Choice>& choices,
                          const Usage& usage, const data::Tokenizer& tokenizer) {
  Tree out = base(h, object_of(h, false)), list = Tree::list();
  for (const Choice& c : choices) {
    Tree one = Tree::object();
    one.set("index", Tree(c.index));
    if (h.chat) {
      Tree message = Tree::object();
      message.set("role", text("assistant"));
      message.set("content", text(c.text));
      message.set("refusal", Tree());
      one.set("message", std::move(message));
    } else {
      one.set("text", text(c.text));
    }
    one.set("logprobs", probabilities(h, c, tokenizer));
    one.set("finish_reason", finish_of(c));
    list.push(std::move(one));
  }
  out.set("choices", std::move(list));
  out.set("usage", usage_tree(usage));
  return to_json(out);
}

std::string role_event(const ResponseHeader& h, int64_t choice) {
  Tree one = Tree::object(), delta = Tree::object();
  delta.set("role", text("assistant"));
  delta.set("content", text(""));
  one.set("index", Tree(choice));
  one.set("delta", std::move(delta));
  one.set("logprobs", Tree());
  one.set("finish_reason", Tree());
  return with_choice(h, std::move(one));
}

std::string text_event(const ResponseHeader& h, const Choice& c, const data::Tokenizer& tokenizer) {
  Tree one = Tree::object();
  one.set("index", Tree(c.index));
  if (h.chat) {
    Tree delta = Tree::object();
    if (!c.text.empty()) delta.set("content", text(c.text));
    one.set("delta", std::move(delta));
  } else {
    one.set("text", text(c.text));
  }
  one.set("logprobs", probabilities(h, c, tokenizer));
  one.set("finish_reason", finish_of(c));
  return with_choice(h, std::move(one));
}

std::string usage_event(const ResponseHeader& h, const Usage& usage) {
  Tree out = base(h, object_of(h, true));
  out.set("choices", Tree::list());
  out.set("usage", usage_tree(usage));
  return to_json(out);
}

std::string error_body(const ApiError& e) {
  Tree error = Tree::object(), out = Tree::object();
  error.set("message", text(eval::as_utf8(e.what())));
  error.set("type", text(e.status() >= 500 ? "server_error" : "invalid_request_error"));
  error.set("param", e.param().empty() ? Tree() : text(eval::as_utf8(e.param())));
  error.set("code", e.code().empty() ? Tree() : text(e.code()));
  out.set("error", std::move(error));
  return to_json(out);
}

namespace {

Tree model_tree(const std::string& model, int64_t created, int64_t context) {
  Tree out = Tree::object();
  out.set("id", text(model));
  out.set("object", text("model"));
  out.set("created", Tree(created));
  out.set("owned_by", text("tessera"));
  out.set("max_model_len", Tree(context));
  return out;
}

}  // namespace

std::string model_body(const std::string& model, int64_t created, int64_t context) {
  return to_json(model_tree(model, created, context));
}

std::string models_body(const std::string& model, int64_t created, int64_t context) {
  Tree out = Tree::object(), list = Tree::list();
  list.push(model_tree(model, created, context));
  out.set("object", text("list"));
  out.set("data", std::move(list));
  return to_json(out);
}

}  // namespace tessera::serve
