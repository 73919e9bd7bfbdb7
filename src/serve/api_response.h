// Responses of OpenAI's API as JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tree.h"
#include "data/tokenizer.h"
#include "eval/text_batch.h"
#include "serve/api_request.h"

namespace tessera::serve {

// The fields that all responses of one request have.
struct ResponseHeader {
  std::string id, model;  // "cmpl-…" or "chatcmpl-…"
  int64_t created = 0;    // seconds since 1970
  bool chat = false;
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

// A text as far as it is known: whole, or the part of one event of a stream.
struct Choice {
  int64_t index = 0;
  std::string text;
  std::vector<eval::NewToken> tokens;  // with probabilities, if they were asked for
  std::vector<int64_t> offsets;        // per token: characters of the whole text before it
  bool has_probabilities = false;
  std::string finish_reason;  // "": not finished
};

// Returns the whole response.
std::string response_body(const ResponseHeader& h, const std::vector<Choice>& choices,
                          const Usage& usage, const data::Tokenizer& tokenizer);

// ---- The data of server-sent events, without "data: ".

// Returns the first event of a text of a chat, which has its role.
std::string role_event(const ResponseHeader& h, int64_t choice);
std::string text_event(const ResponseHeader& h, const Choice& choice,
                       const data::Tokenizer& tokenizer);
std::string usage_event(const ResponseHeader& h, const Usage& usage);

// ---- Other bodies.

std::string error_body(const ApiError& error);
std::string models_body(const std::string& model, int64_t created, int64_t context);
std::string model_body(const std::string& model, int64_t created, int64_t context);

}  // namespace tessera::serve
