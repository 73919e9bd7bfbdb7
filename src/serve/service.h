// The routes of `tessera serve`: OpenAI's API over one model.
//
//   GET  /v1/models, /v1/models/NAME    the model
//   POST /v1/completions                texts that continue prompts
//   POST /v1/chat/completions           the assistant's next message
//   GET  /health                        200, or 503 while the server drains
//   GET  /metrics                       counters in Prometheus' text format
//
// With "stream": true, texts are sent as server-sent events while they are generated.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "eval/text_rules.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/chat_template.h"
#include "serve/engine.h"
#include "serve/http_server.h"

namespace tessera::serve {

struct ServiceOptions {
  std::string model;       // the name that requests use
  std::string api_key;     // requests must have "Authorization: Bearer KEY"; "": all are accepted
  int64_t max_tokens = 0;  // most new tokens per text; 0: the context
  uint64_t seed = 0;       // for requests without a seed, together with their number
  ApiLimits limits;
};

class Service {
 public:
  // All references must outlive the service.
  Service(Engine& engine, const eval::BatchDecoder& decoder, const data::Tokenizer& tokenizer,
          const eval::SpecialTokenRules& rules, const ChatTemplate& chat, ServiceOptions options);

  // Answers a request; may be called by several threads at once. Does not throw.
  void handle(const HttpRequest& request, Responder& responder);

 private:
  struct Task;

  void route(const HttpRequest& request, Responder& responder);
  void complete(const ApiRequest& request, Responder& responder);
  std::vector<TextJob> jobs_of(const ApiRequest& request, uint64_t number, Task& task) const;
  ApiRequest read(const HttpRequest& request, bool chat);
  // Throws ApiError for an id that is not in the vocabulary.
  void require_known(std::string_view key, int32_t id) const;
  std::vector<int32_t> prompt_ids(const ApiRequest& request, size_t prompt, int64_t& added) const;
  void set_stops(const ApiRequest& request, TextJob& job) const;
  void answer_whole(Task& task, Responder& responder);
  void answer_stream(Task& task, Responder& responder);
  std::string metrics() const;

  Engine& engine_;
  const eval::BatchDecoder& decoder_;
  const data::Tokenizer& tokenizer_;
  const eval::SpecialTokenRules& rules_;
  const ChatTemplate& chat_;
  ServiceOptions options_;
  int64_t created_;
  std::atomic<uint64_t> requests_ = 0;
  std::mutex large_;  // held while a large body is read
};

}  // namespace tessera::serve
