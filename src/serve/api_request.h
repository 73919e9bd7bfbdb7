// Requests of OpenAI's API, read and checked. Keys and defaults are those of the API; keys that
// vLLM adds are supported too: top_k, min_p, repetition_penalty, min_tokens, ignore_eos,
// stop_token_ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "eval/sampling.h"
#include "serve/chat_template.h"

namespace tessera::serve {

// An error that is answered with a status code, OpenAI's error object, and headers ("Name:
// value\r\n" each).
class ApiError : public Error {
 public:
  ApiError(int status, std::string param, std::string code, const std::string& message,
           std::string headers = "")
      : Error("{}", message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)),
        headers_(std::move(headers)) {}
  int status() const { return status_; }
  const std::string& param() const { return param_; }  // the key; "": none
  const std::string& code() const { return code_; }    // such as "model_not_found"; "": none
  const std::string& headers() const { return headers_; }

 private:
  int status_;
  std::string param_, code_, headers_;
};

struct ApiLimits {
  int64_t choices = 16;        // n, and prompts per request
  int64_t stops = 16;          // stop texts and ids
  int64_t probabilities = 20;  // top_logprobs
  int64_t messages = 4096;
};

// A prompt as text, or as ids.
using PromptInput = std::variant<std::string, std::vector<int32_t>>;

struct ApiRequest {
  std::string model;  // "": not given
  bool chat = false;
  std::vector<ChatMessage> messages;  // chat
  std::vector<PromptInput> prompts;   // completions: one or several
  eval::SamplingOptions sampling;
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0, n = 1;
  std::optional<uint64_t> seed;
  std::vector<std::string> stops;
  std::vector<int32_t> stop_ids;
  int64_t top_probabilities = -1;  // alternatives per token; -1: no probabilities
  bool stream = false, include_usage = false, echo = false, ignore_end = false;
};

// Read the body of POST /v1/completions and /v1/chat/completions. Throw ApiError with status 400
// that names the key for a body that is not JSON, an unknown key, a value of another type or out of
// range.
ApiRequest read_completion(std::string_view body, const ApiLimits& limits = {});
ApiRequest read_chat(std::string_view body, const ApiLimits& limits = {});

}  // namespace tessera::serve
