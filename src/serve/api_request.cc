// Reads the JSON of a request key by key: each key has one reader in a table, and a key that is in
// no table is an error, so a misspelt option is not ignored.
//
// A value of null counts as absent, as in OpenAI's API. Every error names the key and the value
// that was found, because the author of the client reads it. Limits on counts (choices, stops,
// messages) are checked while reading, before any work is queued; the length of a prompt is checked
// later, when it is tokenized (service.cc).
#include "serve/api_request.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/tree.h"

namespace tessera::serve {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& message) {
  throw ApiError(400, key, "", message);
}

std::string shown(const Tree& t) {
  std::string text = to_json(t);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

[[noreturn]] void expected(const std::string& key, const Tree& got, const char* what) {
  refuse(key, fmt::format("'{}' is {}, expected {}.", key, shown(got), what));
}

int64_t integer(const std::string& key, const Tree& t, int64_t least, int64_t most) {
  const auto* const x = std::get_if<int64_t>(&t.value);
  if (x == nullptr || *x < least || *x > most)
    refuse(key, fmt::format("'{}' is {}, expected an integer from {} to {}.", key, shown(t), least,
                            most));
  return *x;
}

double number(const std::string& key, const Tree& t) {
  const std::optional<double> x = number_in(t);
  if (!x || !std::isfinite(*x)) expected(key, t, "a number");
  return *x;
}

bool boolean(const std::string& key, const Tree& t) {
  const auto* const x = std::get_if<bool>(&t.value);
  if (x == nullptr) expected(key, t, "true or false");
  return *x;
}

const std::string& text(const std::string& key, const Tree& t) {
  const std::string* const x = t.as_string();
  if (x == nullptr) expected(key, t, "a string");
  return *x;
}

int32_t token_id(const std::string& key, const Tree& t) {
  return static_cast<int32_t>(integer(key, t, 0, INT32_MAX));
}

using Reader = void (*)(ApiRequest& r, const std::string& key, const Tree& value,
                        const ApiLimits& limits);
struct Key {
  std::string_view name;
  Reader read;
};

void read_stop(ApiRequest& r, const std::string& key, const Tree& t, const ApiLimits& limits) {
  if (t.as_string() != nullptr) {
    r.stops.push_back(*t.as_string());
  } else if (const Tree::List* const list = t.as_list()) {
    for (const Tree& one : *list) r.stops.push_back(text(key, one));
  } else {
    expected(key, t, "a string or a list of strings");
  }
  if (std::ssize(r.stops) > limits.stops)
    refuse(key,
           fmt::format("'stop' has {} texts, expected at most {}.", r.stops.size(), limits.stops));
  for (const std::string& s : r.stops)
    if (s.empty()) refuse(key, "'stop' has an empty text.");
}

void read_bias(ApiRequest& r, const std::string& key, const Tree& t, const ApiLimits&) {
  const Tree::Members* const members = t.as_members();
  if (members == nullptr) expected(key, t, "an object of token ids and numbers");
  for (const auto& [name, value] : *members) {
    int32_t id = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() || id < 0)
      refuse(key, fmt::format("'logit_bias' has the key \"{}\", expected a token id.", name));
    r.sampling.logit_bias.emplace_back(id, number(key, value));
  }
}

void read_stream_options(ApiRequest& r, const std::string& key, const Tree& t, const ApiLimits&) {
  const Tree::Members* const members = t.as_members();
  if (members == nullptr) expected(key, t, "an object");
  for (const auto& [name, value] : *members) {
    if (name != "include_usage")
      refuse(key, fmt::format("'stream_options' has the unknown key '{}'.", name));
    r.include_usage = boolean("stream_options.include_usage", value);
  }
}

void ignored(ApiRequest&, const std::string&, const Tree&, const ApiLimits&) {}

// Keys of both kinds of requests.
const std::array kCommon{
    Key{"model", [](ApiRequest& r, const std::string& k, const Tree& t,
                    const ApiLimits&) { r.model = text(k, t); }},
    Key{"temperature", [](ApiRequest& r, const std::string& k, const Tree& t,
                          const ApiLimits&) { r.sampling.choice.temperature = number(k, t); }},
    Key{"top_p", [](ApiRequest& r, const std::string& k, const Tree& t,
                    const ApiLimits&) { r.sampling.choice.top_p = number(k, t); }},
    Key{"min_p", [](ApiRequest& r, const std::string& k, const Tree& t,
                    const ApiLimits&) { r.sampling.choice.min_p = number(k, t); }},
    // -1 and 0 both mean all tokens.
    Key{"top_k",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits&) {
          r.sampling.choice.top_k = std::max<int64_t>(0, integer(k, t, -1, INT32_MAX));
        }},
    Key{"repetition_penalty",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits&) {
          r.sampling.repetition_penalty = number(k, t);
        }},
    Key{"frequency_penalty", [](ApiRequest& r, const std::string& k, const Tree& t,
                                const ApiLimits&) { r.sampling.frequency_penalty = number(k, t); }},
    Key{"presence_penalty", [](ApiRequest& r, const std::string& k, const Tree& t,
                               const ApiLimits&) { r.sampling.presence_penalty = number(k, t); }},
    Key{"logit_bias", read_bias},
    Key{"max_tokens", [](ApiRequest& r, const std::string& k, const Tree& t,
                         const ApiLimits&) { r.max_tokens = integer(k, t, 0, INT32_MAX); }},
    Key{"min_tokens", [](ApiRequest& r, const std::string& k, const Tree& t,
                         const ApiLimits&) { r.min_tokens = integer(k, t, 0, INT32_MAX); }},
    Key{"n", [](ApiRequest& r, const std::string& k, const Tree& t,
                const ApiLimits& limits) { r.n = integer(k, t, 1, limits.choices); }},
    Key{"seed",
        [](ApiRequest& r, const std::string& k, const Tree& t,
           const ApiLimits&) { r.seed = static_cast<uint64_t>(integer(k, t, INT64_MIN, INT64_MAX)); }},
    Key{"stop", read_stop},
    Key{"stop_token_ids",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits& limits) {
          const Tree::List* const list = t.as_list();
          if (list == nullptr) expected(k, t, "a list of token ids");
          if (std::ssize(*list) > limits.stops)
            refuse(k, fmt::format("'stop_token_ids' has {} ids, expected at most {}.", list->size(),
                                  limits.stops));
          for (const Tree& id : *list) r.stop_ids.push_back(token_id(k, id));
        }},
    Key{"stream", [](ApiRequest& r, const std::string& k, const Tree& t,
                     const ApiLimits&) { r.stream = boolean(k, t); }},
    Key{"stream_options", read_stream_options},
    Key{"ignore_eos", [](ApiRequest& r, const std::string& k, const Tree& t,
                         const ApiLimits&) { r.ignore_end = boolean(k, t); }},
    // These do not change the text.
    Key{"user", ignored}, Key{"metadata", ignored}, Key{"store", ignored},
    Key{"service_tier", ignored}, Key{"safety_identifier", ignored},
    Key{"prompt_cache_key", ignored}};

std::vector<int32_t> id_list(const std::string& key, const Tree::List& list) {
  std::vector<int32_t> ids;
  for (const Tree& id : list) ids.push_back(token_id(key, id));
  return ids;
}

void read_prompt(ApiRequest& r, const std::string& key, const Tree& t, const ApiLimits& limits) {
  if (t.as_string() != nullptr) {
    r.prompts.emplace_back(*t.as_string());
    return;
  }
  const Tree::List* const list = t.as_list();
  if (list == nullptr || list->empty())
    expected(key, t, "a string, a list of strings, a list of token ids or a list of such lists");
  if (std::holds_alternative<int64_t>((*list)[0].value)) {
    r.prompts.emplace_back(id_list(key, *list));
    return;
  }
  if (std::ssize(*list) > limits.choices)
    refuse(key, fmt::format("'prompt' has {} prompts, expected at most {}.", list->size(),
                            limits.choices));
  for (const Tree& one : *list) {
    if (const Tree::List* const ids = one.as_list())
      r.prompts.emplace_back(id_list(key, *ids));
    else
      r.prompts.emplace_back(text(key, one));
  }
}

const std::array kCompletion{
    Key{"prompt", read_prompt},
    Key{"echo", [](ApiRequest& r, const std::string& k, const Tree& t,
                   const ApiLimits&) { r.echo = boolean(k, t); }},
    Key{"logprobs",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits& limits) {
          r.top_probabilities = integer(k, t, 0, limits.probabilities);
        }},
    Key{"best_of",
        [](ApiRequest&, const std::string& k, const Tree& t, const ApiLimits&) {
          if (integer(k, t, 1, INT32_MAX) != 1)
            refuse(k, "'best_of' above 1 is not supported. Use 'n' and choose among the texts.");
        }},
    Key{"suffix", [](ApiRequest&, const std::string& k, const Tree&, const ApiLimits&) {
          refuse(k, "'suffix' is not supported.");
        }}};

// Returns the text of a message's content: a string, or a list of parts of type text.
std::string content_of(const std::string& key, const Tree& t) {
  if (t.as_string() != nullptr) return *t.as_string();
  const Tree::List* const parts = t.as_list();
  if (parts == nullptr) expected(key, t, "a string or a list of text parts");
  std::string out;
  for (const Tree& part : *parts) {
    const Tree *type = part.find("type"), *words = part.find("text");
    if (type == nullptr || words == nullptr || text(key, *type) != "text")
      expected(key, part,
               "a part {\"type\": \"text\", \"text\": …}; other parts are not supported");
    out += text(key, *words);
  }
  return out;
}

void read_messages(ApiRequest& r, const std::string& key, const Tree& t, const ApiLimits& limits) {
  const Tree::List* const list = t.as_list();
  if (list == nullptr) expected(key, t, "a list of messages");
  if (list->empty() || std::ssize(*list) > limits.messages)
    refuse(key, fmt::format("'messages' has {} messages, expected 1 to {}.", list->size(),
                            limits.messages));
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string at = fmt::format("messages[{}]", i);
    const Tree *role = (*list)[i].find("role"), *content = (*list)[i].find("content");
    if (role == nullptr || content == nullptr)
      expected(at, (*list)[i], "an object with \"role\" and \"content\"");
    std::string name = text(at + ".role", *role);
    if (name == "developer") name = "system";
    if (name != "system" && name != "user" && name != "assistant")
      expected(at + ".role", *role, "system, developer, user or assistant");
    for (const auto& [other, value] : *(*list)[i].as_members())
      if (other != "role" && other != "content" && other != "name" && !value.is_null())
        refuse(at, fmt::format("'{}.{}' is not supported.", at, other));
    r.messages.push_back({name, content_of(at + ".content", *content)});
  }
}

const std::array kChat{
    Key{"messages", read_messages},
    Key{"max_completion_tokens",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits&) {
          r.max_tokens = integer(k, t, 0, INT32_MAX);
        }},
    Key{"logprobs",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits&) {
          if (boolean(k, t)) r.top_probabilities = std::max<int64_t>(r.top_probabilities, 0);
        }},
    Key{"top_logprobs",
        [](ApiRequest& r, const std::string& k, const Tree& t, const ApiLimits& limits) {
          r.top_probabilities = integer(k, t, 0, limits.probabilities);
        }},
    Key{"response_format",
        [](ApiRequest&, const std::string& k, const Tree& t, const ApiLimits&) {
          const Tree* const type = t.find("type");
          if (type == nullptr || text(k, *type) != "text")
            refuse(k, "'response_format' supports only {\"type\": \"text\"}.");
        }},
    Key{"tools",
        [](ApiRequest&, const std::string& k, const Tree& t, const ApiLimits&) {
          if (t.as_list() == nullptr || !t.as_list()->empty())
            refuse(k, "'tools' are not supported.");
        }},
    Key{"tool_choice",
        [](ApiRequest&, const std::string& k, const Tree& t, const ApiLimits&) {
          if (text(k, t) != "none" && text(k, t) != "auto")
            refuse(k, "'tool_choice' is not supported.");
        }},
    Key{"parallel_tool_calls", ignored}};

template <size_t N>
ApiRequest read(std::string_view body, const std::array<Key, N>& own, const ApiLimits& limits) {
  Tree tree;
  try {
    tree = parse_json(body, "body");
  } catch (const Error& e) {
    refuse("", fmt::format("the body is not JSON: {}", e.what()));
  }
  const Tree::Members* const members = tree.as_members();
  if (members == nullptr) refuse("", "the body is not a JSON object.");
  ApiRequest r;
  for (const auto& [name, value] : *members) {
    const Key* key = nullptr;
    for (const Key& k : kCommon)
      if (k.name == name) key = &k;
    for (const Key& k : own)
      if (k.name == name) key = &k;
    if (key == nullptr) refuse(name, fmt::format("unknown key '{}'.", name));
    if (!value.is_null()) key->read(r, name, value, limits);
  }
  try {
    eval::validate(r.sampling);
  } catch (const ApiError&) {
    throw;
  } catch (const Error& e) {
    refuse("", e.what());
  }
  return r;
}

}  // namespace

ApiRequest read_completion(std::string_view body, const ApiLimits& limits) {
  ApiRequest r = read(body, kCompletion, limits);
  if (r.prompts.empty()) refuse("prompt", "'prompt' is missing.");
  if (std::ssize(r.prompts) * r.n > limits.choices)
    refuse("n", fmt::format("{} prompts with n = {} are {} texts, expected at most {}.",
                            r.prompts.size(), r.n, std::ssize(r.prompts) * r.n, limits.choices));
  return r;
}

ApiRequest read_chat(std::string_view body, const ApiLimits& limits) {
  ApiRequest r = read(body, kChat, limits);
  r.chat = true;
  if (r.messages.empty()) refuse("messages", "'messages' is missing.");
  return r;
}

}  // namespace tessera::serve
