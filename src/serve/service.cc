// Answers requests. The thread of a connection submits the texts of its request to the engine, and
// then passes on their events until all texts have ended or the client has gone.
//
// All checks happen before the first byte of a response is sent, so a wrong request gets a status
// code. An error during a stream can only be sent as an event, because the status is already out.
// Whatever happens to the thread, the guard in complete() cancels the channel, so the engine never
// generates text that no client reads.
//
// Sampling is reproducible: the random numbers of a text are a function of (seed, sequence,
// position). With a seed, the texts of each prompt are numbered from 0, so they are the same at any
// load and with any other prompts in the request. A request without a seed numbers all its texts
// and also mixes in its own number, so that equal prompts and equal requests differ.
#include "serve/service.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "eval/text_stream.h"

namespace tessera::serve {
namespace {

constexpr const char* kJson = "application/json";
constexpr size_t kLargeBody = 64 << 10;
constexpr std::chrono::milliseconds kWait{100};  // how often a thread looks whether the client left

std::string finish_reason(eval::Ending e) { return e == eval::Ending::kLength ? "length" : "stop"; }

// Compares in a time that does not depend on where the texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned different = a.size() != b.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return different == 0;
}

constexpr const char* kRetry = "Retry-After: 1\r\n";

std::string event_line(std::string_view data) { return fmt::format("data: {}\n\n", data); }

void append_metric(std::string& out, const char* name, const char* type, const char* help,
                   int64_t value) {
  out += fmt::format("# HELP {} {}.\n# TYPE {} {}\n{} {}\n", name, help, name, type, name, value);
}

}  // namespace

// A request whose texts are being generated.
struct Service::Task {
  ResponseHeader header;
  std::shared_ptr<TextChannel> channel = std::make_shared<TextChannel>();
  std::vector<Choice> choices;
  std::vector<int64_t> echoed;  // per choice: characters of the prompt that the text repeats
  Usage usage;
  bool include_usage = false;
  size_t open = 0;  // texts that have not ended

  // Adds an event to its choice. Throws ApiError if the text failed.
  void add(TextEvent e);
};

void Service::Task::add(TextEvent e) {
  Choice& c = choices[static_cast<size_t>(e.choice)];
  c.text += e.text;
  if (e.token) {
    if (!e.token->in_prompt) ++usage.completion_tokens;
    if (c.has_probabilities) {
      c.offsets.push_back(e.offset +
                          (e.token->in_prompt ? 0 : echoed[static_cast<size_t>(e.choice)]));
      c.tokens.push_back(*std::move(e.token));
    }
  }
  if (!e.ending) return;
  --open;
  if (e.timed_out) throw ApiError(503, "", "timeout", "the request took too long.", kRetry);
  if (*e.ending == eval::Ending::kCancelled)
    throw ApiError(503, "", "shutting_down", "the server is shutting down.", kRetry);
  if (*e.ending == eval::Ending::kError)
    throw ApiError(500, "", "not_finite", "the model's logits are not finite.");
  c.finish_reason = finish_reason(*e.ending);
}

Service::Service(Engine& engine, const eval::BatchDecoder& decoder,
                 const data::Tokenizer& tokenizer, const eval::SpecialTokenRules& rules,
                 const ChatTemplate& chat, ServiceOptions options)
    : engine_(engine),
      decoder_(decoder),
      tokenizer_(tokenizer),
      rules_(rules),
      chat_(chat),
      options_(std::move(options)),
      created_(std::time(nullptr)) {}

void Service::handle(const HttpRequest& request, Responder& responder) {
  try {
    route(request, responder);
  } catch (const ApiError& e) {
    responder.respond(e.status(), kJson, error_body(e), e.headers());
  }
}

void Service::route(const HttpRequest& r, Responder& responder) {
  const bool get = r.method == "GET" || r.method == "HEAD", post = r.method == "POST";
  const auto need = [&](bool allowed, std::string_view method) {
    if (!allowed)
      throw ApiError(405, "", "method_not_allowed",
                     fmt::format("{} is not supported for {}. Use {}.", eval::as_utf8(r.method),
                                 r.path, method),
                     fmt::format("Allow: {}\r\n", method == "GET" ? "GET, HEAD" : method));
  };
  if (r.path == "/health") {
    need(get, "GET");
    const bool draining = engine_.draining();
    return responder.respond(draining ? 503 : 200, kJson,
                             draining ? R"({"status":"draining"})" : R"({"status":"ok"})");
  }
  if (!options_.api_key.empty()) {
    const std::string* const given = r.header("authorization");
    if (given == nullptr || !same_secret(*given, "Bearer " + options_.api_key))
      throw ApiError(401, "", "invalid_api_key",
                     "expected the header 'Authorization: Bearer KEY' with the server's key.",
                     "WWW-Authenticate: Bearer\r\n");
  }
  if (r.path == "/metrics") {
    need(get, "GET");
    return responder.respond(200, "text/plain; version=0.0.4", metrics());
  }
  constexpr std::string_view kModels = "/v1/models";
  if (r.path == kModels) {
    need(get, "GET");
    return responder.respond(200, kJson, models_body(options_.model, created_, decoder_.context()));
  }
  if (r.path.starts_with(kModels) && r.path.substr(kModels.size()) == "/" + options_.model) {
    need(get, "GET");
    return responder.respond(200, kJson, model_body(options_.model, created_, decoder_.context()));
  }
  const bool chat = r.path == "/v1/chat/completions";
  if (!chat && r.path != "/v1/completions")
    throw ApiError(404, "", "not_found",
                   fmt::format("there is no {}. The server has /v1/models, /v1/completions, "
                               "/v1/chat/completions, /health and /metrics.",
                               eval::as_utf8(r.path)));
  need(post, "POST");
  complete(read(r, chat), responder);
}

// A body of many small JSON values takes up to 30 times its bytes while it is read, so only one
// large body is read at a time.
ApiRequest Service::read(const HttpRequest& r, bool chat) {
  std::unique_lock<std::mutex> one(large_, std::defer_lock);
  if (r.body.size() > kLargeBody) one.lock();
  return chat ? read_chat(r.body, options_.limits) : read_completion(r.body, options_.limits);
}

// The embedding table may be padded beyond the vocabulary (to a multiple of the ranks). Ids of
// these rows exist in memory but were never trained, so a client may not send them.
void Service::require_known(std::string_view key, int32_t id) const {
  if (id >= rules_.vocabulary)
    throw ApiError(
        400, std::string(key), "",
        fmt::format("token id {} is not in the model's vocabulary of {}.", id, rules_.vocabulary));
}

// Returns the ids of a prompt. `added` receives the number of ids put before what the client sent.
std::vector<int32_t> Service::prompt_ids(const ApiRequest& r, size_t prompt, int64_t& added) const {
  std::vector<int32_t> ids;
  if (r.chat) {
    ids = chat_.prompt_ids(r.messages, rules_, tokenizer_);
  } else if (const auto* const text = std::get_if<std::string>(&r.prompts[prompt])) {
    ids = tokenizer_.encode(*text);
    added = -std::ssize(ids);
    eval::add_special_tokens(rules_, ids);
    added += std::ssize(ids);
  } else {
    ids = std::get<std::vector<int32_t>>(r.prompts[prompt]);
  }
  for (const int32_t id : ids) require_known("prompt", id);
  // With an empty prompt, the model starts a new text.
  if (ids.empty() && rules_.alone) {
    ids.push_back(*rules_.alone);
    added = 1;
  }
  return ids;
}

void Service::set_stops(const ApiRequest& r, TextJob& job) const {
  job.stops = r.stops;
  job.request.stops = r.stop_ids;
  if (r.ignore_end) return;
  job.request.stops.insert(job.request.stops.end(), rules_.stops.begin(), rules_.stops.end());
  if (r.chat) add_stops(chat_, tokenizer_, job.request.stops, job.stops);
}

// Returns the texts to generate, n per prompt, and adds a choice for each to the task.
std::vector<TextJob> Service::jobs_of(const ApiRequest& r, uint64_t number, Task& task) const {
  for (const auto& [id, bias] : r.sampling.logit_bias) require_known("logit_bias", id);
  for (const int32_t id : r.stop_ids) require_known("stop_token_ids", id);
  std::vector<TextJob> jobs;
  const size_t prompts = r.chat ? 1 : r.prompts.size();
  for (size_t p = 0; p < prompts; ++p) {
    int64_t added = 0;
    const std::vector<int32_t> ids = prompt_ids(r, p, added);
    const int64_t room = decoder_.context() - std::ssize(ids);
    const int64_t most = options_.max_tokens > 0 ? std::min(room, options_.max_tokens) : room;
    task.usage.prompt_tokens += std::ssize(ids);
    const bool too_long =
        room < 0 || r.max_tokens.value_or(0) > room || (room == 0 && r.max_tokens != 0);
    if (too_long)
      throw ApiError(
          400, r.chat ? "messages" : "prompt", "context_length_exceeded",
          fmt::format("the model's context is {} tokens, but the prompt has {} and {} "
                      "new ones were requested.",
                      decoder_.context(), ids.size(), r.max_tokens.value_or(r.chat ? 1 : 16)));
    for (int64_t sample = 0; sample < r.n; ++sample) {
      TextJob job{.request = {}, .stops = {}, .added = added};
      job.request.prompt = ids;
      job.request.sampling = r.sampling;
      job.request.max_tokens = std::min(most, r.max_tokens.value_or(r.chat ? most : 16));
      job.request.min_tokens = r.min_tokens;
      job.request.seed = r.seed.value_or(options_.seed);
      job.request.sequence = r.seed ? static_cast<uint64_t>(sample)
                                    : static_cast<uint64_t>(jobs.size()) | (number + 1) << 16;
      job.request.top_probabilities = r.top_probabilities;
      job.request.prompt_probabilities = r.echo && r.top_probabilities >= 0;
      set_stops(r, job);
      try {
        eval::validate(job.request, decoder_);
      } catch (const Error& e) {
        throw ApiError(400, r.chat ? "messages" : "prompt", "", e.what());
      }
      Choice& c = task.choices.emplace_back();
      c.index = std::ssize(task.choices) - 1;
      c.has_probabilities = r.top_probabilities >= 0;
      if (r.echo)
        c.text = eval::as_utf8(
            eval::written_text(tokenizer_, std::span(ids).subspan(static_cast<size_t>(added))));
      task.echoed.push_back(static_cast<int64_t>(count_characters(c.text)));
      jobs.push_back(std::move(job));
    }
  }
  task.open = jobs.size();
  return jobs;
}

void Service::complete(const ApiRequest& r, Responder& responder) {
  if (!r.model.empty() && r.model != options_.model)
    throw ApiError(404, "model", "model_not_found",
                   fmt::format("there is no model '{}'. The server has '{}'.",
                               eval::as_utf8(r.model), options_.model));
  const uint64_t number = requests_++;
  Task task;
  std::vector<TextJob> jobs;
  try {
    jobs = jobs_of(r, number, task);
  } catch (const ApiError&) {
    throw;
  } catch (const Error& e) {  // the template does not support the messages
    throw ApiError(400, "messages", "", e.what());
  }
  task.include_usage = r.include_usage;
  task.header = {fmt::format("{}-{:016x}", r.chat ? "chatcmpl" : "cmpl",
                             number ^ (static_cast<uint64_t>(created_) << 24)),
                 options_.model, std::time(nullptr), r.chat};
  switch (engine_.submit(std::move(jobs), task.channel)) {
    case Engine::Admission::kAccepted:
      break;
    case Engine::Admission::kFull:
      throw ApiError(429, "", "queue_full", "too many requests are waiting. Retry later.", kRetry);
    case Engine::Admission::kDraining:
      throw ApiError(503, "", "shutting_down", "the server is shutting down.", kRetry);
  }
  // Whatever happens, the engine must not generate text that no client reads.
  struct Cancel {
    TextChannel& channel;
    ~Cancel() { channel.cancel(); }
  } cancel{*task.channel};
  r.stream ? answer_stream(task, responder) : answer_whole(task, responder);
}

// Waits for all texts. The client is looked at after each wait, since a connection that is closed
// produces no event.
void Service::answer_whole(Task& task, Responder& responder) {
  while (task.open > 0) {
    std::vector<TextEvent> events = task.channel->take(kWait);
    if (responder.client_gone()) return;
    for (TextEvent& e : events) task.add(std::move(e));
  }
  responder.respond(200, kJson, response_body(task.header, task.choices, task.usage, tokenizer_));
}

void Service::answer_stream(Task& task, Responder& responder) {
  if (!responder.begin(200, "text/event-stream")) return;
  std::string out;
  const auto event = [&](const std::string& data) { out += event_line(data); };
  for (const Choice& c : task.choices)
    if (task.header.chat) event(role_event(task.header, c.index));
  // Sends what a choice has gained.
  const auto send = [&](Choice& c) {
    if (!c.text.empty() || !c.tokens.empty() || !c.finish_reason.empty())
      event(text_event(task.header, c, tokenizer_));
    c.text.clear();
    c.tokens.clear();
    c.offsets.clear();
  };
  try {
    while (task.open > 0) {
      if (!out.empty() && !responder.send(std::exchange(out, ""))) return;
      std::vector<TextEvent> events = task.channel->take(kWait);
      if (responder.client_gone()) return;
      for (TextEvent& e : events) {
        Choice& c = task.choices[static_cast<size_t>(e.choice)];
        task.add(std::move(e));
        send(c);
      }
    }
    if (task.include_usage) event(usage_event(task.header, task.usage));
    out += event_line("[DONE]");
  } catch (const ApiError& e) {
    event(error_body(e));  // the status was sent already
  }
  responder.send(out);
}

std::string Service::metrics() const {
  const EngineCounts c = engine_.counts();
  std::string out;
  const auto add = [&](const char* name, const char* type, const char* help, int64_t value) {
    append_metric(out, name, type, help, value);
  };
  add("tessera_serve_texts_total", "counter", "Texts that were accepted", c.requests);
  add("tessera_serve_refused_texts_total", "counter", "Texts rejected because the queue was full",
      c.refused);
  add("tessera_serve_cancelled_texts_total", "counter", "Texts whose client left", c.cancelled);
  add("tessera_serve_timed_out_texts_total", "counter", "Texts that took too long", c.timed_out);
  add("tessera_serve_waiting_texts", "gauge", "Texts that wait for a slot", c.waiting);
  add("tessera_serve_active_texts", "gauge", "Texts that have a slot", c.active);
  add("tessera_serve_slots", "gauge", "Slots", decoder_.slots());
  add("tessera_serve_prompt_tokens_total", "counter", "Tokens of prompts that were read",
      c.batch.prompt_tokens);
  add("tessera_serve_reused_tokens_total", "counter", "Tokens of prompts found in a slot",
      c.batch.reused_tokens);
  add("tessera_serve_output_tokens_total", "counter", "Tokens that were generated",
      c.batch.output_tokens);
  add("tessera_serve_steps_total", "counter", "Decoding steps", c.batch.steps);
  add("tessera_serve_memory_bytes", "gauge", "Planned memory: weights, cache, activations",
      decoder_.memory_bytes());
  return out;
}

}  // namespace tessera::serve
